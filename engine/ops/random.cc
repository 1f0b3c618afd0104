#include "engine/ops/random.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/top_k.h"

namespace mtf {
namespace {

std::string_view distribution_name(Distribution::Kind kind) {
  switch (kind) {
    case Distribution::Kind::kUniform:
      return "random_uniform";
    case Distribution::Kind::kNormal:
      return "random_normal";
    case Distribution::Kind::kGumbel:
      return "random_gumbel";
  }
  return {};
}

Tensor draw(Graph& graph, const Shape& shape, DType dtype, Distribution distribution) {
  const std::string name(distribution_name(distribution.kind));
  if (!is_floating(dtype)) shape_error(name, fmt::format("no {} numbers", name_of(dtype)), "a floating type");
  return graph.add<Random>(shape, dtype, distribution, RandomSource::make(graph, name, shape)).output();
}

}  // namespace

RandomSource RandomSource::make(Graph& graph, const std::string& operation, const Shape& noise) {
  return {graph.unique_name(operation), graph.microbatching_of(noise)};
}

Random::Random(const Shape& shape, DType dtype, Distribution distribution, RandomSource source)
    : OperationBase({}, {{shape, dtype}}), distribution(distribution), source(std::move(source)) {}

std::string_view Random::name() const { return distribution_name(distribution.kind); }

std::string Random::attributes() const {
  return fmt::format("a={}, b={}, name={}", distribution.a, distribution.b, source.name);
}

Tensor random_uniform(Graph& graph, const Shape& shape, double low, double high, DType dtype) {
  return draw(graph, shape, dtype, {Distribution::Kind::kUniform, low, high});
}

Tensor random_normal(Graph& graph, const Shape& shape, double mean, double stddev, DType dtype) {
  return draw(graph, shape, dtype, {Distribution::Kind::kNormal, mean, stddev});
}

Tensor random_gumbel(Graph& graph, const Shape& shape, double location, double scale, DType dtype) {
  return draw(graph, shape, dtype, {Distribution::Kind::kGumbel, location, scale});
}

Dropout::Dropout(const Tensor& x, double rate, const Shape& noise_shape, RandomSource source)
    : OperationBase({x}, {{x.shape(), x.dtype()}}),
      rate(rate),
      noise_shape(noise_shape),
      source(std::move(source)) {
  if (!(rate >= 0 && rate < 1))
    shape_error("dropout", fmt::format("a rate of {}", rate), "at least 0 and below 1");
  if (!x.shape().contains_all(noise_shape)) {
    shape_error("dropout", fmt::format("the noise shape {} has dimensions that {} lacks",
                                       noise_shape.to_string(), x.shape().to_string()));
  }
}

std::string Dropout::attributes() const {
  return noise_shape == outputs()[0].shape
             ? fmt::format("rate={}, name={}", rate, source.name)
             : fmt::format("rate={}, noise={}, name={}", rate, noise_shape.to_string(), source.name);
}

std::optional<ElementwiseStep> Dropout::elementwise_step() const {
  const bool scales = is_floating(kernel_dtype());
  if (!scales && kernel_dtype() != DType::kInt32) return std::nullopt;
  return ElementwiseStep{ElementwiseStep::Kind::kDropout, 0, scales ? 1 / (1 - rate) : 1.0};
}

Tensors Dropout::gradient(const Tensors& dy) const {
  return {graph().add<Dropout>(dy[0], rate, noise_shape, source).output()};
}

Tensor dropout(const Tensor& x, double rate, const Shape& noise_shape) {
  const RandomSource source = RandomSource::make(x.graph(), "dropout", noise_shape);
  if (rate == 0) return x;
  return x.graph().add<Dropout>(x, rate, noise_shape, source).output();
}

Tensor dropout(const Tensor& x, double rate) { return dropout(x, rate, x.shape()); }

Tensor sample_with_temperature(const Tensor& logits, DimensionName dimension, double temperature) {
  if (!(temperature >= 0)) {
    shape_error("sample_with_temperature", fmt::format("a temperature of {}", temperature), "0 or more");
  }
  const Tensor wide = cast(logits, DType::kFloat32);
  if (temperature == 0) return argmax(wide, dimension);
  return argmax(add(wide, random_gumbel(logits.graph(), logits.shape(), 0, temperature)), dimension);
}

}  // namespace mtf
