// T5 in Hugging Face form: a directory with config.json, model.safetensors (or several, with
// model.safetensors.index.json) and spiece.model. Its projections are stored transposed.
//
//   const T5Import t5 = import_t5("t5-small", "models/t5-small");
//   export_t5(read_checkpoint_weights("runs/ende", {}), directory);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/convert/weights.h"

namespace mtf {

/// A variable of ours in a file of theirs.
struct T5Tensor {
  std::string name;
  bool transposed = false;
};

/// "decoder/block_000/layer_001/EncDecAttention/q" -> "decoder.block.0.layer.1.EncDecAttention.q.weight",
/// transposed. Nothing for variables that a T5 does not have.
std::optional<T5Tensor> t5_tensor(const std::string& variable);

struct T5Import {
  ModelWeights model;
  /// Copies of files that belong into the model's directory, by name.
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> notes;  ///< for a person
};

/// `to`: where the model will lie, an absolute path. Throws Error (kCheckpoint) that names file and tensor.
T5Import import_t5(const std::string& from, const std::string& to);

/// Fills a directory that exists; lines for a person come back. Throws Error (kConfig) when the model is
/// none.
std::vector<std::string> export_t5(const ModelWeights& model, const std::string& from,
                                   const std::string& directory);

}  // namespace mtf
