// Imports and exports BERT models in Hugging Face format: a directory with config.json, model.safetensors (or several files,
// with model.safetensors.index.json) and vocab.txt. Kernels of dense layers are stored transposed.
//
//   const HuggingFaceImport bert = import_bert("bert-base-uncased", {"/home/me/models/bert"});
//   export_bert(read_checkpoint_weights("runs/bert", {}), "runs/bert", directory);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Maps "transformer/block_000/layer_000/SelfAttention/q" to "bert.encoder.layer.0.attention.self.query.weight", transposed.
/// Returns nullopt for variables that a BERT does not have.
std::optional<HuggingFaceTensor> bert_tensor(const std::string& variable);

/// Imports the model in directory `from`: a model of pretraining, a classifier of texts or tokens, one that predicts numbers
/// or answers questions, or an encoder alone. Throws Error (kCheckpoint), which names file and tensor.
HuggingFaceImport import_bert(const std::string& from, const ImportTarget& target);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages. Throws Error:
/// kConfig when the model is no BERT, kCheckpoint when its weights do not fit.
std::vector<std::string> export_bert(const ModelWeights& model, const std::string& from,
                                     const std::string& directory);

}  // namespace mtf
