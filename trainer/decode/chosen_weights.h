// The checkpoints that `infer.checkpoint`, `score.checkpoint` or `evaluate.checkpoint` mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/runtime/variable_store.h"
#include "trainer/session/session.h"

namespace mtf {

/// Weights from a checkpoint or a safetensors file, or the mean of several checkpoints.
struct ChosenWeights {
  int64_t step = 0;                ///< of the newest; 0 for a file that does not tell
  std::vector<std::string> paths;  ///< directories of checkpoints, or one file

  bool is_file() const;
  /// "step 4000", "the mean of 8 checkpoints up to step 4000", the path of a file.
  std::string description() const;
};

/// "step 200, step 400".
std::string descriptions(const std::vector<ChosenWeights>& chosen);

/// In the order in which they are used. Throws Error (kCheckpoint) when there is none.
std::vector<ChosenWeights> choose_weights(const Config& config, const InferCheckpoints& choice,
                                          std::string_view key);

/// Throws Error (kCheckpoint) when they do not fit the model or its vocabulary.
void load_weights(const ChosenWeights& chosen, const Session& session, VariableStore& weights);

}  // namespace mtf
