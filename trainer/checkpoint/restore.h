// Variables from files: a run that goes on, a fresh run that starts from given weights, an evaluation.
//
//   CheckpointReader reader(find_checkpoint(config, config.evaluate.checkpoint, "evaluate.checkpoint"));
//   restore_variables(reader, variables, Restore::kWeights);
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/graph/graph.h"
#include "engine/runtime/variable_store.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/config/config.h"

namespace mtf {

/// What a checkpoint must hold.
enum class Restore {
  kAll,       ///< every variable; but running means that it lacks start at their weights
  kWeights,   ///< weights and statistics; slots keep their values
  kAverages,  ///< the same, where weights take the values of their running means if it has these
  kPresent,   ///< nothing in particular: what it lacks keeps its values
};

/// What a mode that does not train takes from a checkpoint.
Restore evaluated_weights(const Config& config);

/// Sets variables from a checkpoint of any mesh. Throws Error (kCheckpoint) with the variable where one is
/// missing or has another shape or dtype (float32 and bfloat16 become one another). The names of variables
/// that kept their values come back.
std::vector<std::string> restore_variables(CheckpointReader& reader, VariableStore& variables, Restore what);

/// Elements of these sizes are those of a variable of `shape` in the same order, under other names; or they
/// are those of an attention layer whose heads and d_kv are one dimension here and apart there
/// (combine_dims).
bool are_elements_of(const std::vector<int64_t>& stored, const Shape& shape);

/// Sets the weights from a safetensors file that has them under the names of the model; names of dimensions
/// may differ. Throws Error (kCheckpoint) when one is missing or has another shape or dtype.
void restore_weights(const SafetensorsFile& file, VariableStore& variables, Restore what);

/// What a safetensors file that mtf-convert has written says of its checkpoint; nothing of other files.
Manifest manifest_of(const SafetensorsFile& file);

/// The name under which a checkpoint has what `what` restores to a weight of this name.
std::string restored_name(const CheckpointReader& reader, const std::string& weight, Restore what);

/// The directory of the checkpoint that `choice`, the value of the configuration's `key`, means, or the
/// safetensors file. Throws Error (kCheckpoint) when there is none.
std::string find_checkpoint(const Config& config, const CheckpointChoice& choice, std::string_view key);

/// Throws what initialize_weights() will, but for damaged data, before there are variables: of a file that
/// cannot be opened, and with `graph` (or null) of variables that are not there or have another shape.
void check_initial_weights(const InitOptions& options, const Graph* graph);

/// Sets the weights that section checkpoint.init takes from a run's directory (its latest checkpoint), a
/// checkpoint or a safetensors file; returns a line that says what was taken. Throws Error (kCheckpoint) when
/// a weight that `include` and `exclude` leave is not there or has another shape.
std::string initialize_weights(const InitOptions& options, VariableStore& variables);

}  // namespace mtf
