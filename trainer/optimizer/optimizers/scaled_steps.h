// Optimizers whose steps have one length whatever the gradient's: their rates are given for the usual scales of weights.
#pragma once

#include "trainer/optimizer/optimizer.h"

namespace mtf {

struct ScaledSteps : OptimizerOptions {
  bool scaled_steps = true;

 protected:
  /// The factor `scale` of steps on weight / scale: with w = scale * u, u's gradient is scale times w's and w's step is
  /// scale times as long.
  double scale_of(const Variable& variable) const { return scaled_steps ? variable.step_scale : 1; }
};

/// The key of ScaledSteps and those that all optimizers have.
void describe_scaled(config::Visitor& visit, ScaledSteps& options);

}  // namespace mtf
