// config.json of the language models whose keys have names of their own.
#pragma once

#include <nlohmann/json.hpp>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// True if the sizes of a family's models have other keys than those of a Llama.
bool has_own_keys(CausalLmFamily family);
/// Sets what the keys of such a model say, but for rotary positions. Throws Error (kCheckpoint).
void parse_own_keys(const HuggingFaceJson& json, CausalLmConfig& lm);
void write_own_keys(const CausalLmConfig& lm, nlohmann::ordered_json& json);

}  // namespace mtf
