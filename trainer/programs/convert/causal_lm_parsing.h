// Parts of reading config.json of a language model. All throw Error (kCheckpoint).
#pragma once

#include <cstdint>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/causal_lm_models.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Returns a size that the file must say.
int64_t required_size(const HuggingFaceJson& json, const char* key);

/// Throws Error unless the heads of keys and values, which `key` says, divide those of queries.
void check_heads_share(const HuggingFaceJson& json, const char* key, const CausalLmConfig& lm);

/// Sets the rotary positions of a model whose heads are known. Since version 5 transformers writes rope_parameters with all
/// that is said of them, in some models for each type of layers. Where rope_scaling is given, too, it stands in their place.
void parse_causal_lm_rotary(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm);

/// Sets the kinds of the layers, and the window of those that are local.
void parse_layer_kinds(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm);

}  // namespace mtf
