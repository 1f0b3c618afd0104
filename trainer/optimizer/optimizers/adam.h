// What the optimizers of Adam's family share: the options, and Adam's update of one variable.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/ops/optimizer_updates.h"
#include "trainer/optimizer/optimizers/scaled_steps.h"

namespace mtf {

struct AdamBase : ScaledSteps {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

 protected:
  /// With scale_of(), w's epsilon is 1 / scale, while the decay keeps its rate.
  Tensor adam(UpdateContext& context, const WeightUpdate& w, const BiasCorrection& correction) const;
  /// Adam with the corrections of Kingma and Ba.
  Tensor corrected_adam(UpdateContext& context, const WeightUpdate& w) const;
};

/// 1 / (1 - beta^T), where T - 1 are the steps since the moment began.
std::function<double(int64_t step)> bias_correction(double beta);

/// The keys of AdamBase and those that all optimizers have; `beta1` is the help of that key.
void describe_adam(config::Visitor& visit, AdamBase& options, const char* beta1);

}  // namespace mtf
