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

std::vector<OutputInfo> normalization_outputs(const Tensors& inputs, const std::string& dimension,
                                              bool centered) {
  const Tensor& x = inputs[0];
  const OutputInfo statistic{rows_of(x.shape(), dimension), accumulation_dtype(x.dtype())};
  std::vector<OutputInfo> outputs{{x.shape(), x.dtype()}, statistic};
  if (centered) outputs.push_back(statistic);
  return outputs;
}

/// The gradients of the parameters: of the scale, and if `centered` of the bias.
std::vector<OutputInfo> parameter_gradients(const Tensor& x, const std::string& dimension, bool centered) {
  return std::vector<OutputInfo>(centered ? 2 : 1,
                                 {Shape{x.shape().dimension(dimension)}, accumulation_dtype(x.dtype())});
}

std::vector<OutputInfo> norm_gradient_outputs(const Tensor& x, const std::string& dimension, bool centered,
                                              bool with_parameters) {
  std::vector<OutputInfo> outputs{{x.shape(), x.dtype()}};
  if (with_parameters) {
    for (OutputInfo& parameter : parameter_gradients(x, dimension, centered)) outputs.push_back(parameter);
  }
  return outputs;
}

std::string norm_gradient_attributes(const std::string& dimension, const FusedIntoNorm& fused) {
  return fmt::format("dimension={}{}{}{}", dimension, fused.mask ? ", mask" : "",
                     fused.addend ? ", addend" : "", fused.parameters ? ", parameters" : "");
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

Normalization::Normalization(Tensors inputs, const std::string& dimension, double epsilon,
                             const FusedIntoNorm& fused)
    : OperationBase(inputs, normalization_outputs(inputs, dimension, inputs.size() - fused.mask == 3)),
      dimension(dimension),
      epsilon(epsilon),
      fused(fused) {}

std::string Normalization::attributes() const {
  return fmt::format("dimension={}, epsilon={}{}", dimension, epsilon, fused.mask ? ", mask" : "");
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

NormalizationGradient::NormalizationGradient(Tensors inputs, const std::string& dimension,
                                             const FusedIntoNorm& fused)
    : OperationBase(
          inputs, norm_gradient_outputs(inputs[0], dimension, inputs.size() - fused.mask - fused.addend == 5,
                                        fused.parameters)),
      dimension(dimension),
      fused(fused) {}

std::string NormalizationGradient::attributes() const { return norm_gradient_attributes(dimension, fused); }

std::optional<int> NormalizationGradient::in_place(int output) const {
  return output == 0 ? std::optional<int>(2) : std::nullopt;
}

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

NormalizationParameterGradient::NormalizationParameterGradient(Tensors inputs, const std::string& dimension,
                                                               const FusedIntoNorm& fused)
    : OperationBase(inputs, parameter_gradients(inputs[0], dimension, inputs.size() - fused.mask == 4)),
      dimension(dimension),
      fused(fused) {}

std::string NormalizationParameterGradient::attributes() const {
  return norm_gradient_attributes(dimension, fused);
}

ShardingRule NormalizationParameterGradient::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, rows_of(input(0).shape(), dimension), Reduction::kSum);
}

}  // namespace mtf
