#include "engine/ops/normalization.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

Shape rows_of(const Shape& shape, const std::string& dimension) { return shape - shape.dimension(dimension); }

void check_parameter(std::string_view operation, const Tensor& x, const std::string& dimension,
                     const Tensor& parameter) {
  const Shape expected{x.shape().dimension(dimension)};
  if (parameter.shape() != expected || parameter.dtype() != x.dtype()) {
    shape_error(operation,
                fmt::format("a parameter has shape {} and dtype {}", parameter.shape().to_string(),
                            name_of(parameter.dtype())),
                fmt::format("{} of {}", expected.to_string(), name_of(x.dtype())));
  }
}

Tensor normalized(std::string_view operation, const Tensor& x, const std::string& dimension,
                  Tensors parameters, double epsilon) {
  if (!is_floating(x.dtype()))
    shape_error(operation, fmt::format("needs floating-point values, not {}", name_of(x.dtype())));
  if (!x.shape().contains(dimension)) {
    shape_error(operation, fmt::format("{} has no dimension `{}`", x.shape().to_string(), dimension));
  }
  for (const Tensor& parameter : parameters) check_parameter(operation, x, dimension, parameter);
  parameters.insert(parameters.begin(), x);
  return x.graph().add<Normalization>(std::move(parameters), dimension, epsilon).output();
}

std::vector<OutputInfo> normalization_outputs(const Tensors& inputs, const std::string& dimension) {
  const Tensor& x = inputs[0];
  const OutputInfo statistic{rows_of(x.shape(), dimension), accumulation_dtype(x.dtype())};
  std::vector<OutputInfo> outputs{{x.shape(), x.dtype()}, statistic};
  if (inputs.size() == 3) outputs.push_back(statistic);
  return outputs;
}

/// Returns (x - mean) * rstd in the dtype of rstd. A null mean counts as zero.
Tensor normal(const Tensor& x, const Tensor& rstd, const Tensor& mean) {
  const Tensor wide = cast(x, rstd.dtype());
  const Tensor centered = mean ? subtract(wide, mean, x.shape()) : wide;
  return multiply(centered, rstd, x.shape());
}

}  // namespace

Tensor layer_norm(const Tensor& x, const std::string& dimension, const Tensor& scale, const Tensor& bias,
                  double epsilon) {
  return normalized("layer_norm", x, dimension, {scale, bias}, epsilon);
}

Tensor rms_norm(const Tensor& x, const std::string& dimension, const Tensor& scale, double epsilon) {
  return normalized("rms_norm", x, dimension, {scale}, epsilon);
}

Normalization::Normalization(Tensors inputs, const std::string& dimension, double epsilon)
    : OperationBase(inputs, normalization_outputs(inputs, dimension)),
      dimension(dimension),
      epsilon(epsilon) {}

std::string Normalization::attributes() const {
  return fmt::format("dimension={}, epsilon={}", dimension, epsilon);
}

std::optional<int> Normalization::in_place(int output) const {
  return output == 0 ? std::optional<int>(0) : std::nullopt;
}

Tensors Normalization::gradient(const Tensors& dy) const {
  if (!dy[0]) return Tensors(inputs().size());
  Tensors of_x{input(0), input(1), dy[0], output(1)}, of_parameters{input(0), dy[0], output(1)};
  if (centered()) {
    of_x.push_back(output(2));
    of_parameters.push_back(output(2));
  }
  Tensors result{graph().add<NormalizationGradient>(std::move(of_x), dimension).output()};
  const auto& parameters = graph().add<NormalizationParameterGradient>(std::move(of_parameters), dimension);
  for (int i = 1; i < static_cast<int>(inputs().size()); ++i) {
    result.push_back(cast(parameters.output(i - 1), input(i).dtype()));
  }
  return result;
}

Tensors Normalization::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor& x = inputs[0];
  const Shape rows = rows_of(x.shape(), dimension);
  const DType dtype = accumulation_dtype(x.dtype());
  const Tensor wide = cast(x, dtype);
  const Tensor mean = centered() ? reduce_mean(wide, rows) : Tensor();
  const Tensor deviation = centered() ? subtract(wide, mean, x.shape()) : wide;
  const Tensor rstd = rsqrt(scalar_add(reduce_mean(square(deviation), rows), epsilon));
  Tensor y = multiply(multiply(deviation, rstd, x.shape()), cast(inputs[1], dtype), x.shape());
  if (centered()) y = add(y, cast(inputs[2], dtype), x.shape());
  Tensors outputs{cast(y, x.dtype()), rstd};
  if (centered()) outputs.push_back(mean);
  return outputs;
}

NormalizationGradient::NormalizationGradient(Tensors inputs, const std::string& dimension)
    : OperationBase(inputs, {{inputs[0].shape(), inputs[0].dtype()}}), dimension(dimension) {}

Tensors NormalizationGradient::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor &x = inputs[0], &rstd = inputs[3];
  const Shape rows = rows_of(x.shape(), dimension);
  const DType dtype = rstd.dtype();
  const double n = static_cast<double>(x.shape().dimension(dimension).size);
  const Tensor g = multiply(cast(inputs[2], dtype), cast(inputs[1], dtype), x.shape());
  const Tensor y = normal(x, rstd, centered() ? inputs[4] : Tensor());
  Tensor dx = subtract(g, multiply(y, scalar_multiply(einsum({g, y}, rows), 1 / n), x.shape()));
  if (centered()) dx = subtract(dx, reduce_mean(g, rows), x.shape());
  return {cast(multiply(dx, rstd, x.shape()), x.dtype())};
}

NormalizationParameterGradient::NormalizationParameterGradient(Tensors inputs, const std::string& dimension)
    : OperationBase(inputs, std::vector<OutputInfo>(
                                inputs.size() == 4 ? 2 : 1,
                                {Shape{inputs[0].shape().dimension(dimension)}, inputs[2].dtype()})),
      dimension(dimension) {}

ShardingRule NormalizationParameterGradient::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, rows_of(input(0).shape(), dimension), Reduction::kSum);
}

}  // namespace mtf
