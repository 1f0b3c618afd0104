// Layer normalisation (Ba et al. 2016) and RMS normalisation (Zhang and Sennrich 2019) over one named
// dimension, as fused operations that also return what their gradients need. If the dimension is split, they
// expand to plain operations.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/fused.h"

namespace mtf {

/// Returns (x - mean) * rsqrt(variance + epsilon) * scale + bias, with the mean and biased variance over
/// `dimension`. x: [..., dimension, ...]; scale, bias: [dimension].
Tensor layer_norm(const Tensor& x, const std::string& dimension, const Tensor& scale, const Tensor& bias,
                  double epsilon = 1e-6);
/// Returns x * rsqrt(mean of x^2 + epsilon) * scale, with the mean over `dimension`. x: [..., dimension,
/// ...]; scale: [dimension].
Tensor rms_norm(const Tensor& x, const std::string& dimension, const Tensor& scale, double epsilon = 1e-6);

/// Layer norm if centered(), otherwise RMS norm. Inputs: x, scale, and bias if centered. Outputs: y, the
/// reciprocal standard deviation [x without dimension], and if centered the mean [x without dimension]; both
/// statistics are float32 if x is bfloat16.
class Normalization final : public OperationBase<Normalization> {
 public:
  Normalization(Tensors inputs, const std::string& dimension, double epsilon);
  std::string_view name() const override { return centered() ? "layer_norm" : "rms_norm"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override {
    return request.rules.splits(dimension);
  }
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int output) const override;
  bool centered() const { return inputs().size() == 3; }

  std::string dimension;
  double epsilon;
};

/// With g = dy * scale and n = (x - mean) * rstd, computes
///   dx = rstd * (g - mean(g) [centered] - n * mean(g * n)).
/// Inputs: x, scale, dy, rstd, and mean if centered.
class NormalizationGradient final : public OperationBase<NormalizationGradient> {
 public:
  NormalizationGradient(Tensors inputs, const std::string& dimension);
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return centered() ? "layer_norm_gradient" : "rms_norm_gradient"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  bool needs_expansion(const ShardingRequest& request) const override {
    return request.rules.splits(dimension);
  }
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int) const override { return 2; }
  bool centered() const { return inputs().size() == 5; }

  std::string dimension;
};

/// Inputs: x, dy, rstd, and mean if centered. Outputs, [dimension] each: d scale = the sum over the rows of
/// dy * n, and if centered d bias = the sum of dy; they are partial sums over mesh dimensions that split the
/// rows. A task sums all rows of some columns, so that the bits do not depend on the number of threads.
class NormalizationParameterGradient final : public OperationBase<NormalizationParameterGradient> {
 public:
  NormalizationParameterGradient(Tensors inputs, const std::string& dimension);
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override {
    return centered() ? "layer_norm_parameter_gradient" : "rms_norm_parameter_gradient";
  }
  std::string attributes() const override { return "dimension=" + dimension; }
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  bool centered() const { return inputs().size() == 4; }

  std::string dimension;
};

}  // namespace mtf
