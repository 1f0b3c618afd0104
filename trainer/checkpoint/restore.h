// Restores variables from files, for a run that resumes, a fresh run that starts from given weights, or an
// evaluation.
//
//   CheckpointReader reader(find_checkpoint(config, config.evaluate.checkpoint, "evaluate.checkpoint"));
//   restore_variables(reader, variables, Restore::kWeights);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/graph/graph.h"
#include "engine/runtime/variable_store.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/config/config.h"

namespace mtf {

/// The variables that are restored, and those that a checkpoint must have.
enum class Restore {
  /// Every variable; missing running means start at their weights, and missing slots keep their values.
  kAll,
  kWeights,  ///< weights and statistics; optimizer slots keep their values
  /// Like kWeights, but weights take the values of their running means if the checkpoint has these.
  kAverages,
  kPresent,  ///< like kAll, but what else the checkpoint lacks keeps its values, too
};

/// Returns what a mode that does not train restores from a checkpoint.
Restore evaluated_weights(const Config& config);

/// True if the checkpoint has running means of weights.
bool has_averages(const Manifest& manifest);

/// The names of variables that a checkpoint lacks.
struct NotRestored {
  std::vector<std::string> kept;      ///< kept their values
  std::vector<std::string> averages;  ///< start_average() sets them once each process has restored its slices
};

/// Sets the variables that checkpoints contain from one that was saved on any mesh. Throws Error (kCheckpoint), which names the
/// variable, when one is missing or has another shape or an incompatible dtype (float32 and bfloat16 are converted). `apart`
/// has the names of further weights of the model, which are restored at another time.
NotRestored restore_variables(CheckpointReader& reader, VariableStore& variables, Restore what,
                              std::span<const std::string> apart = {});

/// True if a tensor of the sizes `stored` has the elements of a variable of `shape` in the same order. Names
/// of dimensions may differ, and the dimensions heads and d_kv of an attention layer may be combined into one
/// on either side (combine_dims).
bool are_elements_of(const std::vector<int64_t>& stored, const Shape& shape);

/// Sets the weights from a safetensors file whose tensors have the names of the model's variables. Throws
/// Error (kCheckpoint) when one is missing or has another shape or an incompatible dtype. `apart`: as above.
void restore_weights(SafetensorsFile file, VariableStore& variables, Restore what,
                     std::span<const std::string> apart = {});

/// Sets the constants below `prefix` (those of a teacher) from the weights of a checkpoint's directory or of a
/// safetensors file, which have the names behind the prefix; from their running means where it has these. Throws Error
/// (kCheckpoint) when one is missing or has another shape or an incompatible dtype.
void restore_constants(const std::string& path, std::string_view prefix, VariableStore& variables);

/// Returns the name of the checkpoint's variable that `what` restores to `weight`.
std::string restored_name(const CheckpointReader& reader, const std::string& weight, Restore what);

/// Returns the path of the checkpoint's directory, or of the safetensors file, that `choice`, the value of
/// the configuration's `key`, selects. Throws Error when there is none: kConfig if the key names its step or path.
std::string find_checkpoint(const Config& config, const CheckpointChoice& choice, std::string_view key);

/// Throws the errors of initialize_weights() before variables are allocated, except those of damaged data:
/// for a file that cannot be opened and, if `graph` is not null, for variables that are missing or have
/// another shape.
void check_initial_weights(const InitOptions& options, const Graph* graph);

/// Sets the weights that section checkpoint.init selects from a run's directory (its newest checkpoint), a
/// checkpoint or a safetensors file; without `raw` from their running means where it has these. Returns a line
/// for the log. Throws Error (kCheckpoint) when a weight that `include` and `exclude` select is missing or has
/// another shape.
std::string initialize_weights(const InitOptions& options, VariableStore& variables);

}  // namespace mtf
