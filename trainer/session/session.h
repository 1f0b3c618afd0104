// What every mode starts from: the checked configuration, the layouts, the model and its data.
//
//   Diagnostics diagnostics;
//   Session session = open_session(load_config(...), one_process(), diagnostics);
//   const std::optional<TrainStep> step = build_step(session, options, diagnostics);
//   diagnostics.throw_if_errors();                     // all that is wrong with the run, at once
//   const Program program = compile(session, *step->graph);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/sources/options.h"
#include "engine/comm/process/process_group.h"
#include "engine/runtime/executor.h"
#include "engine/spmd/partition/partition.h"
#include "models/model.h"
#include "trainer/config/config.h"
#include "trainer/session/collective_backend.h"
#include "trainer/session/step.h"

namespace mtf {

struct Session {
  Config config;
  std::shared_ptr<ProcessGroup> processes;  ///< of the run
  Layouts layouts;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;      ///< null where the model was reported
  std::vector<std::string> outputs;  ///< names of the prediction: "logits", and the target of a regression
  TextVocabularies vocabularies;     ///< null without `data.vocabulary`
  /// Null where it could not be opened for errors that are reported. In modes that do not train: features
  /// without examples, those of the examples that are evaluated or traced; null until these are known.
  std::shared_ptr<const Source> train_data;
  std::shared_ptr<Profile> profile = {};      ///< null: the run is not profiled
  CollectiveBackend collective_backend = {};  ///< between GPUs, once the processes have been compared
};

/// Looks at a session whose model is made and whose vocabularies are not open yet. `step`: the graph of the
/// training step; null where the examples are not known without reading them. What is wrong goes to
/// `diagnostics` or is thrown as Error.
using BeforeTexts = std::function<void(const Session& session, const Graph* step, Diagnostics& diagnostics)>;

/// Makes the model and opens data.train. What is wrong with the configuration goes
/// to `diagnostics`; files that cannot be read are thrown as Error, unless there are errors in the
/// configuration. A vocabulary that a training run lacks is trained into its directory, once nothing is wrong
/// with the configuration. Modes that look at none of its examples get data.train without examples where the
/// configuration declares its features (texts); run.mode=explain opens it where only the files tell them.
/// `before_texts`: what a run that trains checks before its texts are read and a vocabulary is made of them.
Session open_session(Config config, std::shared_ptr<ProcessGroup> processes, Diagnostics& diagnostics,
                     const BeforeTexts& before_texts = {});
/// The same for a run of one process.
Session open_session(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                     Diagnostics& diagnostics);

/// Opens a source for evaluation, under the same rule.
std::shared_ptr<const Source> open_source(const Session& session, const SourceChoice& options,
                                          const Mark& mark, Diagnostics& diagnostics);

/// Reports layout rules that no graph of the model has a use for, in modes without a training step (which
/// build_step() checks), as far as the features of the examples are known.
void check_layout_rules(const Session& session, Diagnostics& diagnostics);

/// The training step; nothing after errors, which go to `diagnostics`.
std::optional<TrainStep> build_step(const Session& session, const TrainStepOptions& options,
                                    Diagnostics& diagnostics);
/// The evaluation of a batch; null after errors.
std::unique_ptr<Graph> build_evaluation(const Session& session, Diagnostics& diagnostics);

/// Steps of the whole run: train.steps and train.epochs, whichever ends first; nothing: neither is given.
/// `step` of them are done, and row `row` of the stream of examples comes next.
std::optional<int64_t> planned_steps(const Session& session, int64_t step = 0, int64_t row = 0);
/// Rows of the stream in train.epochs, which must be given.
int64_t rows_of_epochs(const Session& session);

/// The partitioned program, under the layouts of the session or others. The graph has passed check_layouts.
Program compile(const Session& session, const Graph& graph);
Program compile(const Session& session, const Graph& graph, const Layouts& layouts);
PartitionOptions partition_options_of(const Session& session);
/// With several processes: once they have been compared (same_run.h).
ExecutorOptions executor_options(const Session& session);
/// `shared`: variables that it has are shared with it.
VariableStoreOptions variable_store_options(const Session& session, const VariableStore* shared = nullptr);

}  // namespace mtf
