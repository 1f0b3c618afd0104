// Adafactor (Shazeer and Stern 2018): second moments factored over the two largest dimensions, update
// clipping, and a step size relative to the size of the weight. With s = g^2 + epsilon1, r the decay, and d0
// and d1 the largest and the second largest dimension:
//   factored        vr = r vr + (1 - r) mean_d0(s);  vc = r vc + (1 - r) mean_d1(s)
//                   x = g / sqrt(vr / mean_d1(vr)) / sqrt(vc)
//   not factored    v = r v + (1 - r) s;  x = g / sqrt(v)
//   clipping        x = x / max(1, rms(x) / clipping_threshold), rms over the whole variable
//   step            d = learning_rate max(rms(w), epsilon2) x; without parameter scale d = learning_rate x
//   beta1 > 0       m = beta1 m + (1 - beta1) d;  d = m
//   w = w - d
//
// The update passes over the large tensors three times and stores no temporary of their size: the first pass
// computes the sums of g^2 along each factored dimension and of w^2, the second one the size of the update
// (if it is clipped), the third one applies it. The sums are partial sums where a dimension is split; small
// plain operations run between the passes. Sums and the values computed from them are float64 until the last
// rounding, so that the step size has the same bits under any layout.
//
//   slots = one variable for each of adafactor_slots(w.shape(), options), read
//   const AdafactorUpdate u = adafactor_update(w, g, slots, learning_rate, decay, options);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf {

struct AdafactorOptions {
  bool multiply_by_parameter_scale = true;  ///< false for names that are excluded from it
  double beta1 = 0;
  std::optional<double> clipping_threshold = 1.0;
  bool factored = true;
  double epsilon1 = 1e-30;
  double epsilon2 = 1e-3;
  int64_t min_dim_size_to_factor = 128;
  /// Dimensions that are never factored; each of their entries has its own scale.
  std::vector<std::string> stacked_dim_names = {};
};

/// The dimensions that are factored: of those that are not stacked, the largest and the second largest (the
/// first in declared order on ties), if the second has at least min_dim_size_to_factor entries.
struct FactoredDimensions {
  Dimension largest, second;
};
std::optional<FactoredDimensions> factored_dimensions(const Shape& shape, const AdafactorOptions& options);

/// Returns the suffixes and shapes of a variable's slots, in the order in which adafactor_update() takes
/// them: "_slot_vr" (without the largest dimension) and "_slot_vc" (without the second largest), or
/// "_slot_v"; then "_slot_m" if beta1 > 0. Slots start at zero.
std::vector<std::pair<std::string, Shape>> adafactor_slots(const Shape& shape,
                                                           const AdafactorOptions& options);

struct AdafactorUpdate {
  Tensor weight;
  Tensors slots;
};
/// Returns the new weight and slots. `learning_rate` and `decay` (of the second moments) are scalars. The
/// gradient is cast to the slots' dtype, which is float32 for a bfloat16 weight. Throws Error if shapes or
/// the number of slots do not fit.
AdafactorUpdate adafactor_update(const Tensor& weight, const Tensor& gradient, const Tensors& slots,
                                 const Tensor& learning_rate, const Tensor& decay,
                                 const AdafactorOptions& options);

/// One pass over a weight and its gradient. Inputs: w, g. Outputs: for each dimension of `summed`, g^2 summed
/// along it; and w^2 summed to `weight_sums` if that is given. Outputs of a large weight have a leading
/// dimension `adafactor_block`, whose entries are partial results that must still be summed; therefore the
/// tasks are independent and the result does not depend on the number of threads.
class AdafactorSums final : public OperationBase<AdafactorSums> {
 public:
  AdafactorSums(const Tensor& w, const Tensor& g, const Shape& summed,
                const std::optional<Shape>& weight_sums);
  std::string_view name() const override { return "adafactor_sums"; }
  bool is_groupable() const override { return true; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  std::vector<std::string> unsplittable() const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  Shape summed;
  std::optional<Shape> weight_sums;
};

/// Computes v' = decay * v + (1 - decay) * (g^2 + epsilon1). Inputs: v, g, decay.
class AdafactorSecondMoment final : public OperationBase<AdafactorSecondMoment> {
 public:
  AdafactorSecondMoment(const Tensor& v, const Tensor& g, const Tensor& decay, double epsilon1)
      : OperationBase({v, g, decay}, {{v.shape(), v.dtype()}}), epsilon1(epsilon1) {}
  std::string_view name() const override { return "adafactor_second_moment"; }
  bool is_groupable() const override { return true; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  std::optional<int> in_place(int) const override { return 0; }

  double epsilon1;
};

/// Sums x^2 of the update x = g * row_factor * column_factor, or x = g / sqrt(v). Inputs: g, and the two
/// factors or v. Output: a scalar, or [adafactor_block].
class AdafactorUpdateSquares final : public OperationBase<AdafactorUpdateSquares> {
 public:
  explicit AdafactorUpdateSquares(Tensors inputs);
  std::string_view name() const override { return "adafactor_update_squares"; }
  bool is_groupable() const override { return true; }
  Tensors gradient(const Tensors& dy) const override;
  std::vector<std::string> unsplittable() const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
};

/// Computes d = scale * x with x as above; m' = beta1 m + (1 - beta1) d; w' = w - m' (w - d without m).
/// Inputs: w, g, scale, m if beta1 > 0, and the two factors or v. Outputs: w, and m if beta1 > 0.
class AdafactorApply final : public OperationBase<AdafactorApply> {
 public:
  AdafactorApply(Tensors inputs, double beta1);
  std::string_view name() const override { return "adafactor_apply"; }
  bool is_groupable() const override { return true; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  std::optional<int> in_place(int output) const override { return output == 0 ? 0 : 3; }
  int first_factor() const { return beta1 > 0 ? 4 : 3; }

  double beta1;
};

/// Returns the dimension of the partial results for a weight of this shape, or nothing if it is small.
std::optional<Dimension> adafactor_blocks(const Shape& shape);

}  // namespace mtf
