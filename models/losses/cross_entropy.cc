// The cross-entropy of softmax(prediction) and the class of the target.
#include "engine/ops/cross_entropy.h"

#include "models/loss.h"

namespace mtf {
namespace {

Tensor cross_entropy(const LossInputs& in) {
  return softmax_cross_entropy(in.prediction, in.target, in.classes,
                               {.z_loss = in.z_loss, .label_smoothing = in.label_smoothing})
      .loss;
}

const LossRegistration cross_entropy_registration("cross_entropy", LossTarget::kClasses, cross_entropy,
                                                  {"softmax", "nll", "cce", "categorical_cross_entropy",
                                                   "sparse_categorical_cross_entropy"});

}  // namespace
}  // namespace mtf
