// Imports and exports decoder-only language models in Hugging Face format: a directory with config.json, model.safetensors (or
// several files, with model.safetensors.index.json), tokenizer.json and tokenizer_config.json.
//
//   const HuggingFaceImport lm = import_causal_lm("SmolLM2-135M", {"/home/me/models/smol"});
//   export_causal_lm(read_checkpoint_weights("runs/smol", {}), "runs/smol", directory);
//
// Ids here are others than in the file (data/vocabulary/renumbering.h), and with them the rows of embedding and softmax. Where
// no token begins a text, row 0 of the embedding is a copy of the row of the token that ends one: these models were trained on
// documents that stand behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/expert_tensors.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The tensor of a Hugging Face file that holds a variable of a language model.
struct CausalLmTensor : HuggingFaceTensor {
  /// A GPT-2 has queries, keys and values in one tensor, one behind another: the variable is that third of its columns.
  std::optional<int64_t> third = {};
  bool has_row_of_each_id = false;
  bool is_less_one = false;                   ///< the file has the variable less 1
  std::optional<ExpertTensors> experts = {};  ///< those of the kernels of experts, in place of `name`
};

/// Maps "transformer/block_007/layer_000/SelfAttention/q" to "model.layers.7.self_attn.q_proj.weight", transposed. Returns
/// nullopt for variables that such a model does not have.
std::optional<CausalLmTensor> causal_lm_tensor(const std::string& variable, const CausalLmConfig& lm);

/// Imports the model in directory `from`. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_causal_lm(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages.
/// Throws Error: kConfig when transformers has no such model, kCheckpoint when its weights or its vocabulary do not fit.
std::vector<std::string> export_causal_lm(const ModelWeights& model, const std::string& from,
                                          const std::string& directory);

}  // namespace mtf
