// |prediction - target| of each number.
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "models/loss.h"

namespace mtf {
namespace {

Tensor mean_absolute_error(const LossInputs& in) { return abs(subtract(in.prediction, in.target)); }

const LossRegistration mean_absolute_error_registration("mean_absolute_error", LossTarget::kNumbers,
                                                        mean_absolute_error, {"mae", "l1"});

}  // namespace
}  // namespace mtf
