// Imports and exports translation and summarisation models that are built like BART, in Hugging Face format: a directory with
// config.json, model.safetensors and the files of the tokeniser.
//
//   const HuggingFaceImport bart = import_bart("nllb-200-distilled-600M", {"/home/me/models/nllb"});
//   export_bart(read_checkpoint_weights("runs/nllb", {}), "runs/nllb", directory);
//
// Ids here are others than in the file (data/vocabulary/renumbering.h), and with them the rows of embeddings, softmax and
// bias. Which models there are says bart_config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/bart_config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The tensor of a Hugging Face file that holds a variable of such a model.
struct BartTensor : HuggingFaceTensor {
  /// The vocabulary for each of whose ids it has a row, or an entry of the bias.
  enum class Rows : int8_t { kNone, kInputs, kTargets };
  Rows rows = Rows::kNone;
};

/// Maps "encoder/block_007/layer_000/SelfAttention/q" to "model.encoder.layers.7.self_attn.q_proj.weight", transposed. Returns
/// nullopt for variables that such a model does not have.
std::optional<BartTensor> bart_tensor(const std::string& variable, BartKind kind);

/// Imports the model in directory `from`. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_bart(const std::string& from, const ImportTarget& target);

/// Write a model into an existing directory and return readable notes. `from` names the model in messages. export_marian()
/// writes a Marian, export_bart() the class that computes what the layers do: BART, mBART or M2M100.
/// Throw Error: kConfig when the model is none of these, kCheckpoint when its weights do not fit its configuration.
std::vector<std::string> export_bart(const ModelWeights& model, const std::string& from,
                                     const std::string& directory);
std::vector<std::string> export_marian(const ModelWeights& model, const std::string& from,
                                       const std::string& directory);

}  // namespace mtf
