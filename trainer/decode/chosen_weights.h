// Loads the checkpoints that `infer.checkpoint`, `score.checkpoint` or `evaluate.checkpoint` select.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/runtime/variable_store.h"
#include "trainer/session/session.h"

namespace mtf {

/// Weights from a checkpoint or a safetensors file, or the mean of several checkpoints.
struct ChosenWeights {
  int64_t step = 0;                ///< step of the newest checkpoint; 0 for a file without this information
  std::vector<std::string> paths;  ///< directories of checkpoints, or one safetensors file

  bool is_file() const;
  /// Returns "step 4000", "the mean of 8 checkpoints up to step 4000", or the path of a file.
  std::string description() const;
};

/// Returns the descriptions, joined: "step 200, step 400".
std::string descriptions(const std::vector<ChosenWeights>& chosen);

/// Returns the weights that the option `key` selects, in the order in which they are used. Throws Error
/// (kCheckpoint) when a checkpoint does not exist.
std::vector<ChosenWeights> choose_weights(const Config& config, const InferCheckpoints& choice,
                                          std::string_view key);

/// Loads (and averages) the chosen weights. Throws Error (kCheckpoint) when they do not fit the model or its
/// vocabulary.
void load_weights(const ChosenWeights& chosen, const Session& session, VariableStore& weights);

}  // namespace mtf
