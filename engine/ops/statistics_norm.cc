#include "engine/ops/statistics_norm.h"

#include <fmt/format.h>

#include "engine/ops/affine.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/moments.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

Tensor wide(const Tensor& x) { return cast(x, DType::kFloat64); }

Tensor product(const Tensor& a, const Tensor& b) { return multiply(a, b, a.shape() + b.shape()); }

/// y = x * factor + summand, of one shape and in float64.
struct Coefficients {
  Tensor factor, summand;
};
Coefficients coefficients(const Tensor& mean, const Tensor& rstd, const Tensor& scale, const Tensor& bias) {
  const Tensor factor = product(rstd, wide(scale));
  return {factor, subtract(wide(bias), product(mean, factor), factor.shape())};
}

}  // namespace

Normalized normalize(const Tensor& x, const Shape& statistics, const Tensor& scale, const Tensor& bias,
                     double epsilon) {
  const Shape kept = statistics + scale.shape();
  const auto sums = moments(x, x, kept);
  const double count = static_cast<double>(x.shape().size()) / static_cast<double>(statistics.size());
  const Tensor mean = scalar_multiply(reduce_sum(sums.sum, statistics), 1 / count);
  const Tensor squares = scalar_multiply(reduce_sum(sums.product, statistics), 1 / count);
  const Tensor variance = relu(subtract(squares, square(mean)));  // rounding may make it negative
  const Tensor rstd = rsqrt(scalar_add(variance, epsilon));
  const auto [factor, summand] = coefficients(mean, rstd, scale, bias);
  const DType dtype = accumulation_dtype(x.dtype());
  const Tensor y =
      x.graph()
          .add<StatisticsNorm>(Tensors{x, cast(factor, dtype), cast(summand, dtype), mean, rstd, scale, bias},
                               count)
          .output();
  return {y, stop_gradient(cast(mean, dtype)), stop_gradient(cast(variance, dtype))};
}

Tensor normalize_by(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& scale,
                    const Tensor& bias, double epsilon) {
  const Tensor rstd = rsqrt(scalar_add(wide(variance), epsilon));
  const auto [factor, summand] = coefficients(wide(mean), rstd, scale, bias);
  const DType dtype = accumulation_dtype(x.dtype());
  return affine(x, cast(factor, dtype), cast(summand, dtype));
}

StatisticsNorm::StatisticsNorm(Tensors inputs, double count)
    : OperationBase(inputs, {{inputs[0].shape(), inputs[0].dtype()}}), count(count) {}

/// With n = (x - mean) * rstd, S0 and S1 the sums of dy * scale and of n * dy * scale over the entries of a statistic:
///   dx = rstd * (dy * scale - S0 / count - n * S1 / count)
Tensors StatisticsNorm::gradient(const Tensors& dy) const {
  const Tensor &x = input(0), &mean = input(3), &rstd = input(4), &scale = input(5), &bias = input(6);
  const Shape &kept = input(1).shape(), &statistics = mean.shape();
  const auto sums = moments(x, dy[0], kept);
  const Tensor of_normalized =
      multiply(rstd, subtract(sums.product, multiply(mean, sums.sum, kept), kept), kept);  // n * dy
  const auto share = [&](const Tensor& sum) {
    return scalar_multiply(reduce_sum(multiply(wide(scale), sum, kept), statistics), 1 / count);
  };
  const Tensor of_entries = multiply(square(rstd), share(of_normalized), statistics);
  const Tensor summand =
      subtract(multiply(mean, of_entries, statistics), multiply(rstd, share(sums.sum), statistics));
  const DType dtype = input(1).dtype();
  const auto coefficient = [&](const Tensor& value) { return cast(broadcast(value, kept), dtype); };
  Tensors gradients(inputs().size());
  gradients[0] = affine(dy[0], input(1), x, coefficient(negative(of_entries)), coefficient(summand));
  gradients[5] = cast(reduce_sum(of_normalized, scale.shape()), scale.dtype());
  gradients[6] = cast(reduce_sum(sums.sum, bias.shape()), bias.dtype());
  return gradients;
}

}  // namespace mtf
