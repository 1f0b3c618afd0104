#include "engine/ops/softmax.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

void check(std::string_view operation, const Tensor& x, const std::string& dimension) {
  if (!is_floating(x.dtype()))
    shape_error(operation, fmt::format("needs floating-point values, not {}", name_of(x.dtype())));
  if (!x.shape().contains(dimension)) {
    shape_error(operation, fmt::format("{} has no dimension `{}`", x.shape().to_string(), dimension));
  }
}

/// Returns x in the dtype of its sums.
Tensor widened(const Tensor& x) { return cast(x, accumulation_dtype(x.dtype())); }

/// Composes log(sum(exp(x - m))) + m of plain operations, with m the maximum.
Tensor composed_logsumexp(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit) {
  const Shape rows = without(x.shape(), dimension);
  Tensor maximum_of_row = reduce_max(x, rows);
  Tensor extra;
  if (extra_logit) {
    extra = x.graph().constant(*extra_logit, x.dtype());
    maximum_of_row = maximum(maximum_of_row, extra, rows);
  }
  Tensor sum = reduce_sum(exp(subtract(x, maximum_of_row, x.shape())), rows);
  if (extra) sum = add(sum, exp(subtract(extra, maximum_of_row, rows)));
  return add(log(sum), maximum_of_row);
}

/// Returns sum(a * b) over `dimension`.
Tensor sum_of_products(const Tensor& a, const Tensor& b, const std::string& dimension) {
  return einsum({a, b}, without(a.shape(), dimension));
}

}  // namespace

Tensor reduce_logsumexp(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit) {
  check("logsumexp", x, dimension);
  return x.graph().add<LogSumExp>(x, dimension, extra_logit).output();
}

Tensor softmax(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit) {
  check("softmax", x, dimension);
  return x.graph().add<Softmax>(x, dimension, extra_logit).output();
}

Tensor log_softmax(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit) {
  check("log_softmax", x, dimension);
  return x.graph().add<LogSoftmax>(x, dimension, extra_logit).output();
}

std::string AlongDimension::attributes() const {
  return extra_logit ? fmt::format("dimension={}, extra_logit={}", dimension, *extra_logit)
                     : "dimension=" + dimension;
}

LogSumExp::LogSumExp(const Tensor& x, const std::string& dimension, std::optional<double> extra_logit)
    : AlongDimension({x}, {{without(x.shape(), dimension), accumulation_dtype(x.dtype())}}, dimension,
                     extra_logit) {}

Tensors LogSumExp::gradient(const Tensors& dy) const {
  return {graph().add<LogSumExpGradient>(input(0), output(), dy[0], dimension).output()};
}

Tensors LogSumExp::expand(const Tensors& inputs, const LayoutMap&) const {
  return {composed_logsumexp(widened(inputs[0]), dimension, extra_logit)};
}

Tensors Softmax::gradient(const Tensors& dy) const {
  return {graph().add<SoftmaxGradient>(output(), dy[0], dimension).output()};
}

Tensors Softmax::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor x = widened(inputs[0]);
  const Tensor log_z = composed_logsumexp(x, dimension, extra_logit);
  return {cast(exp(subtract(x, log_z, x.shape())), inputs[0].dtype())};
}

Tensors SoftmaxGradient::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor y = widened(inputs[0]), dy = widened(inputs[1]);
  const Tensor sum = sum_of_products(y, dy, dimension);
  return {cast(multiply(y, subtract(dy, sum, y.shape())), inputs[0].dtype())};
}

Tensors LogSoftmax::gradient(const Tensors& dy) const {
  return {graph().add<LogSoftmaxGradient>(output(), dy[0], dimension).output()};
}

Tensors LogSoftmax::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor x = widened(inputs[0]);
  return {cast(subtract(x, composed_logsumexp(x, dimension, extra_logit), x.shape()), inputs[0].dtype())};
}

Tensors LogSoftmaxGradient::expand(const Tensors& inputs, const LayoutMap&) const {
  const Tensor y = widened(inputs[0]), dy = widened(inputs[1]);
  const Tensor sum = reduce_sum(dy, without(dy.shape(), dimension));
  return {cast(subtract(dy, multiply(exp(y), sum, y.shape())), inputs[0].dtype())};
}

}  // namespace mtf
