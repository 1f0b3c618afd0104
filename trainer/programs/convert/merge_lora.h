// Kernels with their low-rank updates (layers/lora.h) as kernels alone, for formats that have no such updates.
#pragma once

#include <functional>
#include <string>

#include "trainer/programs/convert/weights.h"

namespace mtf {

/// Adds the product of each pair of thin matrices to their kernel, `scale_of` times, and removes both: NAME becomes
/// NAME + scale NAME_lora_a NAME_lora_b, in float32. Throws Error (kCheckpoint) where one of the three is missing; `from` names
/// the model in messages.
void merge_lora(ModelWeights& model, const std::function<double(const std::string& kernel)>& scale_of,
                const std::string& from);

}  // namespace mtf
