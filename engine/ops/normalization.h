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

/// What a pass over programs (engine/spmd/passes/fuse_norms.cc) lets a norm or its gradient do as well; graphs contain
/// the separate operations, and the results have their bits: there is a rounding wherever they round.
struct FusedIntoNorm {
  bool mask =
      false;  ///< y, or dy before anything else, is multiplied by `mask` [x without dimension], in the dtype of x
  bool addend = false;      ///< `addend`, like x, is added to dx
  bool parameters = false;  ///< the gradients of the parameters are further results
};

/// Layer norm if centered(), otherwise RMS norm. Inputs: x, scale, bias if centered, and mask if fused. Outputs:
/// y, the reciprocal standard deviation [x without dimension], and if centered the mean [x without dimension];
/// both statistics are float32 if x is bfloat16.
class Normalization final : public OperationBase<Normalization> {
 public:
  Normalization(Tensors inputs, const std::string& dimension, double epsilon,
                const FusedIntoNorm& fused = {});
  std::string_view name() const override { return centered() ? "layer_norm" : "rms_norm"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override {
    return request.rules.splits(dimension);
  }
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int output) const override;
  bool centered() const { return inputs().size() - fused.mask == 3; }

  std::string dimension;
  double epsilon;
  FusedIntoNorm fused;
};

/// With g = dy * scale and n = (x - mean) * rstd, computes
///   dx = rstd * (g - mean(g) [centered] - n * mean(g * n)).
/// Inputs: x, scale, dy, rstd, mean if centered, and mask and addend if fused. Outputs: dx, and if fused those
/// of NormalizationParameterGradient.
class NormalizationGradient final : public OperationBase<NormalizationGradient> {
 public:
  NormalizationGradient(Tensors inputs, const std::string& dimension, const FusedIntoNorm& fused = {});
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override { return centered() ? "layer_norm_gradient" : "rms_norm_gradient"; }
  std::string attributes() const override;
  bool needs_expansion(const ShardingRequest& request) const override {
    return request.rules.splits(dimension);
  }
  Tensors expand(const Tensors& inputs, const LayoutMap&) const override;
  std::optional<int> in_place(int output) const override;
  bool centered() const { return inputs().size() - fused.mask - fused.addend == 5; }
  int mask_input() const { return centered() ? 5 : 4; }
  int addend_input() const { return mask_input() + fused.mask; }

  std::string dimension;
  FusedIntoNorm fused;
};

/// Inputs: x, dy, rstd, mean if centered, and mask if fused. Outputs, [dimension] each: d scale = the sum over
/// the rows of dy * n, and if centered d bias = the sum of dy; they are partial sums over mesh dimensions that
/// split the rows. On the CPU a task sums all rows of some columns, so that the bits do not depend on the number
/// of threads.
class NormalizationParameterGradient final : public OperationBase<NormalizationParameterGradient> {
 public:
  NormalizationParameterGradient(Tensors inputs, const std::string& dimension,
                                 const FusedIntoNorm& fused = {});
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  std::string_view name() const override {
    return centered() ? "layer_norm_parameter_gradient" : "rms_norm_parameter_gradient";
  }
  std::string attributes() const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  bool centered() const { return inputs().size() - fused.mask == 4; }
  int mask_input() const { return centered() ? 4 : 3; }

  std::string dimension;
  FusedIntoNorm fused;
};

}  // namespace mtf
