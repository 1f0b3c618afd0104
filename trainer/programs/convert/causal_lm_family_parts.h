// Parts of settle_family(), for one class of transformers each: they set `lm.family`, and throw Error (kConfig), which says what
// the class does not have.
#pragma once

#include "trainer/programs/convert/causal_lm_layers.h"

namespace mtf {

/// Those without rms_norm: an MPT has alibi and norms without biases, a Nemotron the square of relu, a GPT-J parallel layers
/// whose attention has no biases.
void settle_mpt(CausalLmLayers& layers);
void settle_nemotron(CausalLmLayers& layers);
void settle_gptj(CausalLmLayers& layers);

/// Those with rms_norm that turn a part of a head: a Phi-3 has longrope, too; a GLM-4 has norms behind its layers and before
/// them, and a GLM only before them.
void settle_phi3(CausalLmLayers& layers);
void settle_glm(CausalLmLayers& layers);

}  // namespace mtf
