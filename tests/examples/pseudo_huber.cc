// sqrt(1 + (prediction - target)^2) - 1 of each number: square for small errors, linear for large ones.
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "models/loss.h"

namespace mtf {
namespace {

Tensor pseudo_huber(const LossInputs& in) {
  const Tensor error = subtract(in.prediction, in.target);
  return scalar_add(sqrt(scalar_add(square(error), 1)), -1);
}

const LossRegistration pseudo_huber_registration("pseudo_huber", LossTarget::kNumbers, pseudo_huber,
                                                 {"huber", "charbonnier"});

}  // namespace
}  // namespace mtf
