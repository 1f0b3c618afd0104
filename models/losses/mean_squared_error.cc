// (prediction - target)^2 of each number.
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "models/loss.h"

namespace mtf {
namespace {

Tensor mean_squared_error(const LossInputs& in) { return square(subtract(in.prediction, in.target)); }

const LossRegistration mean_squared_error_registration("mean_squared_error", LossTarget::kNumbers,
                                                       mean_squared_error, {"mse", "l2"});

}  // namespace
}  // namespace mtf
