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

#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Imports the model in directory `from`. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_causal_lm(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages.
/// Throws Error: kConfig when transformers has no such model, kCheckpoint when its weights or its vocabulary do not fit.
std::vector<std::string> export_causal_lm(const ModelWeights& model, const std::string& from,
                                          const std::string& directory);

}  // namespace mtf
