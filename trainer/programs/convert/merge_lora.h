// Kernels with their low-rank updates (layers/lora.h) as kernels alone, for formats that have no such updates.
#pragma once

#include <string>

#include "engine/config/node.h"
#include "trainer/programs/convert/weights.h"

namespace mtf {

/// Adds the product of each pair of thin matrices to their kernel, in float32, and removes both: NAME becomes
/// NAME + alpha / rank NAME_lora_a NAME_lora_b. `section`: `model` of the configuration, which has the options; `from` names the
/// model in messages. Throws Error: kCheckpoint where a matrix is missing, kConfig where layers of one kind have several alphas.
void merge_lora(ModelWeights& model, const config::Node& section, const std::string& from);

}  // namespace mtf
