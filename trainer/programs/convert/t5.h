// Imports and exports T5 models in Hugging Face format: a directory with config.json, model.safetensors (or
// several files, with model.safetensors.index.json) and spiece.model. Projections are stored transposed.
//
//   const HuggingFaceImport t5 = import_t5("t5-small", {"/home/me/models/t5-small"});
//   export_t5(read_checkpoint_weights("runs/ende", {}), "runs/ende", directory);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Maps "decoder/block_000/layer_001/EncDecAttention/q" to
/// "decoder.block.0.layer.1.EncDecAttention.q.weight", transposed. Returns nullopt for variables that a T5
/// does not have.
std::optional<HuggingFaceTensor> t5_tensor(const std::string& variable);

/// Imports the model in directory `from`. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_t5(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages.
/// Throws Error: kConfig when the model is no T5, kCheckpoint when its weights do not fit.
std::vector<std::string> export_t5(const ModelWeights& model, const std::string& from,
                                   const std::string& directory);

}  // namespace mtf
