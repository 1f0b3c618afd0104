// Imports and exports translation models of Marian in Hugging Face format (MarianMTModel, OPUS-MT): a directory with
// config.json, model.safetensors, source.spm, target.spm and vocab.json.
//
//   const HuggingFaceImport marian = import_marian("opus-mt-en-de", {"/home/me/models/en-de"});
//   export_marian(read_checkpoint_weights("runs/en-de", {}), "runs/en-de", directory);
//
// Ids here are others than in the file (data/vocabulary/renumbering.h), and with them the rows of embeddings, softmax and
// bias.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The tensor of a Hugging Face file that holds a variable of a Marian.
struct MarianTensor : HuggingFaceTensor {
  /// The vocabulary for each of whose ids it has a row, or an entry of the bias.
  enum class Rows : int8_t { kNone, kInputs, kTargets };
  Rows rows = Rows::kNone;
};

/// Maps "encoder/block_007/layer_000/SelfAttention/q" to "model.encoder.layers.7.self_attn.q_proj.weight", transposed. Returns
/// nullopt for variables that a Marian does not have.
std::optional<MarianTensor> marian_tensor(const std::string& variable);

/// Imports the model in directory `from`. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_marian(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages.
/// Throws Error: kConfig when the model is no Marian, kCheckpoint when its weights do not fit its configuration.
std::vector<std::string> export_marian(const ModelWeights& model, const std::string& from,
                                       const std::string& directory);

}  // namespace mtf
