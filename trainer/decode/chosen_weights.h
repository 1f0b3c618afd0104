// Loads the checkpoints that `infer.checkpoint`, `score.checkpoint` or `evaluate.checkpoint` select.
//
//   const std::vector<WeightGroup> chosen = together(choose_weights(...), config.infer.ensemble);
//   const GroupModels models(session, chosen[0], config.infer.ensemble, mark);
//   GroupWeights weights(session, models);
//   weights.load(chosen[0]);
//   Decoder(programs, weights.variables(), options)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/runtime/variable_store.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/decode/ensemble.h"
#include "trainer/decode/line_stream.h"
#include "trainer/decode/programs.h"
#include "trainer/session/session.h"

namespace mtf {

/// Weights from a checkpoint or a safetensors file, or the mean of several checkpoints.
struct ChosenWeights {
  int64_t step = 0;                ///< step of the newest checkpoint; 0 for a file without this information
  std::vector<std::string> paths;  ///< directories of checkpoints, or one safetensors file
  bool by_path = false;            ///< chosen by its path in a list

  bool is_file() const;
  /// Returns "step 4000", "the mean of 8 checkpoints up to step 4000", or a path.
  std::string description() const;
};

/// Returns the weights that the option `key` selects, in the order in which they are used. Throws Error (kConfig) when a
/// checkpoint that it names does not exist, and (kCheckpoint) when there is none at all.
std::vector<ChosenWeights> choose_weights(const Config& config, const InferCheckpoints& choice,
                                          std::string_view key);

/// Loads (and averages) the chosen weights, and makes the copies of weights. Throws Error (kCheckpoint) when they do not fit
/// the model or its vocabulary.
void load_weights(const ChosenWeights& chosen, const Session& session, const WeightConversions& conversions,
                  VariableStore& weights, Restore what);

/// What predicts together: the weights of one model, or of the members of an ensemble.
using WeightGroup = std::vector<ChosenWeights>;

/// Returns one group of all weights if they are an ensemble, otherwise a group for each of them.
std::vector<WeightGroup> together(std::vector<ChosenWeights> chosen, const EnsembleOptions& ensemble);
/// Returns "step 4000" or "the ensemble of step 2000 and step 4000".
std::string description(const WeightGroup& group);
/// Returns what the processes of the run, if they are several, must have in common of the weights: their descriptions and
/// weights_fingerprint().
std::vector<std::pair<std::string, std::string>> fields_of(const Session& session,
                                                           const std::vector<WeightGroup>& groups);
/// Returns the step of the newest checkpoint.
int64_t newest_step(const WeightGroup& group);
/// Returns the files that a source names, as inputs by its key; none without a source.
std::vector<NamedInput> files_of(std::string_view key, std::optional<SourceChoice> source);
/// Throws Error (kConfig) if the groups would write into the same output, the value of the option `key`, or over one of the
/// files `inputs`, a file of the configuration or a record of the run.
void check_output_names(const Config& config, std::string_view key, const std::string& output,
                        const std::vector<WeightGroup>& groups, std::span<const NamedInput> inputs);

/// The models of a group: the session's, or for checkpoints of other runs in an ensemble those that they say they were
/// trained with.
class GroupModels {
 public:
  /// `mark`: the place of the checkpoints, for messages. Throws Error (kConfig) when a member cannot predict together
  /// with the session's model, or when the layout does not fit it.
  GroupModels(const Session& session, const WeightGroup& group, const EnsembleOptions& options,
              const Mark& mark);

  /// Valid as long as this object.
  const Ensemble& ensemble() const { return ensemble_; }
  /// Programs whose variables are the weights of a member each.
  std::vector<const Program*> programs() const;
  /// What makes the copies of weights of a member.
  const WeightConversions& conversions(size_t member) const { return programs_[member].conversions; }
  /// What is restored of a member: of another run the running means, where it has these.
  Restore restored(size_t member) const { return restored_[member]; }

 private:
  Ensemble ensemble_;
  std::vector<std::unique_ptr<Model>> models_;  ///< those that are not the session's
  std::vector<WeightsProgram> programs_;
  std::vector<Restore> restored_;
};

/// The loaded weights of a group. Those of an ensemble's members stand below member_name().
class GroupWeights {
 public:
  /// The groups that are loaded have as many members as `models`, which must outlive the object.
  GroupWeights(const Session& session, const GroupModels& models);

  void load(const WeightGroup& group);
  VariableStore& variables() { return members_.size() > 1 ? all_ : *members_.front(); }

 private:
  const Session& session_;
  const GroupModels& models_;
  std::vector<std::unique_ptr<VariableStore>> members_;
  VariableStore all_;  ///< the variables of all members
};

}  // namespace mtf
