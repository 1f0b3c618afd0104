// What is built and checked before a run writes anything: programs, data sets, memory.
#pragma once

#include <optional>
#include <vector>

#include "trainer/evaluation/evaluate.h"
#include "trainer/parameter_server/server_plan.h"
#include "trainer/session/session.h"
#include "trainer/train/continuation.h"

namespace mtf {

struct TrainPlan {
  UpdateOptions update;
  TrainStep step;  ///< without its graph
  std::vector<EvaluationSet> evaluation_sets;
  Program program;
  double model_flops = 0;  ///< of a step (model_flops())
  std::optional<Program> evaluation;
  std::optional<Continuation> continuation;    ///< run.model_dir holds a run
  std::optional<ParameterServerPlan> servers;  ///< train.strategy: parameter_server
};

/// The training step, and the evaluation where there is one.
std::vector<const Program*> programs_of(const TrainPlan& plan);

/// What can be wrong before the texts are read (BeforeTexts): the weights that a fresh run starts from and,
/// before a vocabulary is trained and written, the run that goes on, metrics, the evaluation, its texts.
/// Throws Error with all that is wrong.
void check_before_texts(const Session& session, const Graph* step, Diagnostics& diagnostics);

/// A run goes on with the vocabulary that it began with, or run.allow_change says otherwise.
void check_vocabulary(const Session& session, Continuation& old, Diagnostics& diagnostics);

/// Throws Error: all that is wrong with the configuration together, labels that are no class, too little
/// memory. `session.config` takes over what a run that continues fixes (find_continuation).
TrainPlan make_train_plan(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
