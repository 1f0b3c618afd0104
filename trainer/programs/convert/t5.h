// Imports and exports T5 models in Hugging Face format: a directory with config.json, model.safetensors (or
// several files, with model.safetensors.index.json) and spiece.model. Projections are stored transposed.
//
//   const T5Import t5 = import_t5("t5-small", "/home/me/models/t5-small");
//   export_t5(read_checkpoint_weights("runs/ende", {}), "runs/ende", directory);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/weights.h"

namespace mtf {

/// The tensor of a Hugging Face file that holds a variable of a model.
struct T5Tensor {
  std::string name;
  bool transposed = false;
};

/// Maps "decoder/block_000/layer_001/EncDecAttention/q" to
/// "decoder.block.0.layer.1.EncDecAttention.q.weight", transposed. Returns nullopt for variables that a T5
/// does not have.
std::optional<T5Tensor> t5_tensor(const std::string& variable);

struct T5Import {
  ModelWeights model;
  /// The names and contents of further files for the model's directory.
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;  ///< readable lines on the import
};

/// Imports the model in directory `from`. `to` is the absolute path of the directory that will hold it.
/// Throws Error (kCheckpoint), which names file and tensor.
T5Import import_t5(const std::string& from, const std::string& to);

/// Writes a model into an existing directory and returns readable notes. `from` names the model in messages.
/// Throws Error: kConfig when the model is no T5, kCheckpoint when its weights do not fit.
std::vector<std::string> export_t5(const ModelWeights& model, const std::string& from,
                                   const std::string& directory);

}  // namespace mtf
