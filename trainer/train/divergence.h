// The message on a training step that is not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/runtime/non_finite.h"

namespace mtf {

/// "training diverged in step 12: the loss is NaN (not a number), the norm of the gradients infinite; the first value
/// that is not finite is made by the operation `log` in layer `block_1`: ...". `culprit` is that value, if it
/// was found.
std::string divergence_text(int64_t step, double loss, double grad_norm,
                            const std::optional<NonFinite>& culprit);

}  // namespace mtf
