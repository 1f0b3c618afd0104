// Normalisation by the mean and the variance over several dimensions: batch norm (Ioffe and Szegedy 2015) over the batch
// and space, instance norm (Ulyanov et al. 2016) over space, group norm (Wu and He 2018) over space and the channels of a
// group. However a layout splits them, the statistics are those of all entries: they are sums in float64.
#pragma once

#include <string_view>

#include "engine/graph/graph.h"

namespace mtf {

struct Normalized {
  Tensor y;
  Tensor mean, variance;  ///< float32 (float64 for float64); no gradient passes through them
};

/// Returns (x - mean) * rsqrt(variance + epsilon) * scale + bias, with the mean and the biased variance over the dimensions
/// of x that `statistics` lacks. x: [.., statistics.., ..]; scale, bias: of one shape, some dimensions of x, in the type of
/// x.
Normalized normalize(const Tensor& x, const Shape& statistics, const Tensor& scale, const Tensor& bias,
                     double epsilon);

/// The same with given statistics, as in evaluation. mean, variance: of one shape.
Tensor normalize_by(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& scale,
                    const Tensor& bias, double epsilon);

/// Inputs: x, and of shape [the dimensions of statistics, scale and bias] the factor and the summand of x, then mean and
/// reciprocal standard deviation [statistics], scale, bias. The gradient of x is the whole one, through the statistics as
/// well; those of the other inputs but scale and bias are none.
class StatisticsNorm final : public OperationBase<StatisticsNorm> {
 public:
  explicit StatisticsNorm(Tensors inputs, double count);
  std::string_view name() const override { return "statistics_norm"; }
  Tensors gradient(const Tensors& dy) const override;

  double count;  ///< entries that each statistic is over
};

}  // namespace mtf
