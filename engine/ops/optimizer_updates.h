// Optimizer updates as fused operations: they read weight, gradient and slots once and return the new values,
// which may take the buffers of the old ones. Learning rates and decays are scalar tensors that the host
// feeds.
//
//   const AdamUpdate u = adam_update(w, g, m, v, learning_rate, {.weight_decay = 0.01});
//   graph.assign(weight, u.weight, finite); ...
//
// Slots and scalars have the accumulation dtype of the weight: its own dtype, or float32 if that is bfloat16.
// Gradients are cast to it. In place of float32, the slots of momentum and Adam may be bfloat16: they are widened, updated
// and rounded at random (stochastic_cast.h); the weight's step is computed from the values before rounding. Adafactor is
// in adafactor.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/random.h"

namespace mtf {

/// Returns w - learning_rate * g.
Tensor sgd_update(const Tensor& weight, const Tensor& gradient, const Tensor& learning_rate);

struct MomentumUpdate {
  Tensor weight, velocity;
};
/// Classical momentum: v' = learning_rate * g + momentum * v; w' = w - v'. `first_element` as in AdamOptions.
MomentumUpdate momentum_update(const Tensor& weight, const Tensor& gradient, const Tensor& velocity,
                               const Tensor& learning_rate, double momentum, int64_t first_element = 0);

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0;  ///< decoupled (Loshchilov and Hutter 2019)
  /// For the rounding of slots: the index of the first element, where the weight is a part of a larger one.
  int64_t first_element = 0;
};
/// 1 / (1 - beta1^T) and 1 / (1 - beta2^T), where T is the number of steps including this one; null: no bias
/// correction.
struct BiasCorrection {
  Tensor first, second;
};
struct AdamUpdate {
  Tensor weight, first_moment, second_moment;
};
/// Adam (Kingma and Ba 2015): m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g^2;
/// w' = w - learning_rate * (m^ / (sqrt(v^) + epsilon) + weight_decay * w) with m^, v^ = m', v' times their
/// corrections.
AdamUpdate adam_update(const Tensor& weight, const Tensor& gradient, const Tensor& first_moment,
                       const Tensor& second_moment, const Tensor& learning_rate,
                       const AdamOptions& options = {}, const BiasCorrection& correction = {});

/// Returns true (a scalar bool) if every element of every tensor is finite.
Tensor all_finite(const Tensors& tensors);

/// Inputs: w, g, learning rate.
class SgdUpdate final : public OperationBase<SgdUpdate> {
 public:
  SgdUpdate(const Tensor& w, const Tensor& g, const Tensor& learning_rate)
      : OperationBase({w, g, learning_rate}, {{w.shape(), w.dtype()}}) {}
  Tensors gradient(const Tensors& dy) const override;
  std::string_view name() const override { return "sgd_update"; }
  bool is_groupable() const override { return true; }
  std::optional<int> in_place(int) const override { return 0; }
};

/// Inputs: w, g, v, learning rate. Outputs: w, v. `rounding` is given if v is bfloat16 in place of float32.
class MomentumStep final : public OperationBase<MomentumStep> {
 public:
  MomentumStep(const Tensor& w, const Tensor& g, const Tensor& v, const Tensor& learning_rate,
               double momentum, std::optional<RandomSource> rounding)
      : OperationBase({w, g, v, learning_rate}, {{w.shape(), w.dtype()}, {w.shape(), v.dtype()}}),
        momentum(momentum),
        rounding(std::move(rounding)) {}
  Tensors gradient(const Tensors& dy) const override;
  std::string_view name() const override { return "momentum_update"; }
  bool is_groupable() const override { return true; }
  std::string attributes() const override;
  std::optional<int> in_place(int output) const override { return output == 0 ? 0 : 2; }

  double momentum;
  std::optional<RandomSource> rounding;
};

/// Inputs: w, g, m, v, learning rate, and the two corrections if there are any. Outputs: w, m, v. `rounding` is given if m
/// and v are bfloat16 in place of float32; the lower half of an element's random bits rounds m, the upper half v.
class AdamStep final : public OperationBase<AdamStep> {
 public:
  AdamStep(Tensors inputs, const AdamOptions& options, std::optional<RandomSource> rounding)
      : OperationBase(inputs, {{inputs[0].shape(), inputs[0].dtype()},
                               {inputs[2].shape(), inputs[2].dtype()},
                               {inputs[3].shape(), inputs[3].dtype()}}),
        options(options),
        rounding(std::move(rounding)) {}
  Tensors gradient(const Tensors& dy) const override;
  std::string_view name() const override { return "adam_update"; }
  bool is_groupable() const override { return true; }
  std::string attributes() const override;
  std::optional<int> in_place(int output) const override { return output == 0 ? 0 : output + 1; }

  AdamOptions options;
  std::optional<RandomSource> rounding;
};

/// Inputs: scalar tensors of one dtype. Output: bool.
class AllFinite final : public OperationBase<AllFinite> {
 public:
  explicit AllFinite(Tensors scalars) : OperationBase(std::move(scalars), {{{}, DType::kBool}}) {}
  std::string_view name() const override { return "all_finite"; }
};

}  // namespace mtf
