// The plan of a training run: programs, data sets and memory, built and checked before the run writes
// anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/evaluation/evaluate.h"
#include "trainer/parameter_server/server_plan.h"
#include "trainer/session/session.h"
#include "trainer/train/continuation.h"

namespace mtf {

struct TrainPlan {
  UpdateOptions update;
  TrainStep step;  ///< the training step without its graph
  std::vector<EvaluationSet> evaluation_sets;
  Program program;
  WeightConversions conversions;    ///< what the evaluation reads
  double model_flops = 0;           ///< model_flops() of a step
  std::vector<std::string> memory;  ///< lines on the plan of the memory
  /// A line on what `auto` in train.microbatches or train.recompute has become; empty: it stands in neither.
  std::string choice;
  std::optional<Program> evaluation;
  std::optional<Continuation> continuation;    ///< set if run.model_dir holds a run
  std::optional<ParameterServerPlan> servers;  ///< set with train.strategy: parameter_server
};

/// Returns the training step and, if there is one, the evaluation.
std::vector<const Program*> programs_of(const TrainPlan& plan);

/// Checks what can be checked before the texts are read (BeforeTexts): the weights from which a fresh run
/// starts and, if a vocabulary must be trained, the run that resumes, metrics, the evaluation and its texts.
/// Throws Error with all problems.
void check_before_texts(const Session& session, const Graph* step, bool trains_vocabulary,
                        Diagnostics& diagnostics);

/// Reports an error if a run would resume with another vocabulary, unless run.allow_change permits it.
void check_vocabulary(const Session& session, Continuation& old, Diagnostics& diagnostics);

/// Makes the plan, and changes `session.config`: it takes the values that a resumed run fixes (find_continuation), and what
/// is chosen for `auto` in train.microbatches and train.recompute. Throws Error: all errors of the configuration at once,
/// labels that are not a class, too little memory.
TrainPlan make_train_plan(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
