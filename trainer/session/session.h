// The common state of all modes: the checked configuration, the layouts, the model and its data.
//
//   Diagnostics diagnostics;
//   Session session = open_session(load_config(...), one_process(), diagnostics);
//   const std::optional<TrainStep> step = build_step(session, options, diagnostics);
//   diagnostics.throw_if_errors();                     // reports all errors at once
//   const Program program = compile(session, *step->graph);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sources/options.h"
#include "engine/checkpoint/manifest.h"
#include "engine/comm/process/process_group.h"
#include "engine/runtime/executor.h"
#include "engine/spmd/partition/partition.h"
#include "models/model.h"
#include "trainer/config/config.h"
#include "trainer/session/collective_backend.h"
#include "trainer/session/device_budget.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/step.h"

namespace mtf {

class ModelDirLock;

/// The weights of the teacher (section `distill`) or of the reference model (section `preference`).
struct Teacher {
  std::string name;  ///< "teacher" or "reference model"
  Mark mark;         ///< the place of what names its checkpoint
  std::string path;  ///< a checkpoint's directory, or a safetensors file
  Manifest manifest;
};

/// What `train.recompute: auto` and `train.microbatches: auto` have become before. The run keeps it while it fits.
struct EarlierRecompute {
  Recompute recompute = RecomputeWord::kNone;
  int64_t microbatches = 1;
  std::string reason = "as in the run so far";
};

struct Session {
  Config config;
  std::shared_ptr<ProcessGroup> processes;  ///< the processes of the run
  Layouts layouts;
  std::shared_ptr<Backend> backend;
  /// Null if the model has errors, which were reported. With a teacher it is a TaughtModel.
  std::unique_ptr<Model> model;
  std::vector<std::string> outputs;  ///< names of the prediction: "logits", and a regression's target
  TextVocabularies vocabularies;     ///< the vocabularies; null without `data.vocabulary`
  /// The training data; null if they have errors, which were reported. In modes that do not train it has only
  /// the features of the examples that are evaluated or traced, and is null until these are known.
  std::shared_ptr<const Source> train_data;
  /// What `data.split` holds out of data.train, by name; empty in modes that read neither.
  std::map<std::string, std::shared_ptr<const Source>> held_out = {};
  std::string preparation = {};               ///< Source::preparation() of the training data
  std::shared_ptr<Profile> profile = {};      ///< null if the run is not profiled
  CollectiveBackend collective_backend = {};  ///< set by check_same_run()
  std::optional<DeviceBudget> device_budget = {};
  std::optional<Teacher> teacher = {};                      ///< set in modes that apply it
  std::optional<EarlierRecompute> found_recompute = {};     ///< what was found together with `layout: auto`
  std::shared_ptr<const ModelDirLock> directory_lock = {};  ///< set by hold_directory()
};

/// Checks a session whose model is made and whose vocabularies are not open yet. `step` is the graph of the
/// training step, or null if the features are not known without reading the examples. `trains_vocabulary`: a vocabulary is
/// trained next. Problems are reported to `diagnostics` or thrown as Error.
using BeforeTexts = std::function<void(const Session& session, const Graph* step, bool trains_vocabulary,
                                       Diagnostics& diagnostics)>;

/// Makes the model and opens data.train. Errors of the configuration are reported to `diagnostics`; files
/// that cannot be read are thrown as Error, unless the configuration has errors. If the configuration is
/// correct, a vocabulary that a training run lacks, or that it may replace, is trained into its directory. Modes that
/// read no training examples get a data.train without examples if the configuration declares its features (texts); otherwise
/// run.mode=explain opens the files to find the features. `before_texts` is called in training runs before
/// texts are read and a vocabulary is trained.
Session open_session(Config config, std::shared_ptr<ProcessGroup> processes, Diagnostics& diagnostics,
                     const BeforeTexts& before_texts = {});
/// Opens a session for a run of one process.
Session open_session(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                     Diagnostics& diagnostics);

/// True if the model writes no texts: run.mode=infer then predicts for examples.
bool is_predictor(const Session& session);

/// Reports layout rules that no graph of the model uses, in modes without a training step, if the features
/// are known. (build_step() checks the other modes.)
void check_layout_rules(const Session& session, Diagnostics& diagnostics);

/// True if a training step begins on the device while the results of the one before are still to be looked at
/// (UpdateOptions::runs_ahead).
bool runs_ahead(const Session& session);
/// Builds the training step. Errors are reported to `diagnostics`; the result is then nullopt.
std::optional<TrainStep> build_step(const Session& session, const TrainStepOptions& options,
                                    Diagnostics& diagnostics);
/// Builds the step again with other options, such as microbatches, after build_step() has reported its problems and warnings.
/// Throws Error if it has problems.
std::optional<TrainStep> rebuild_step(const Session& session, const TrainStepOptions& options);
/// Builds the evaluation of a batch. Errors are reported to `diagnostics`; the result has then no graph.
EvaluationGraph build_evaluation(const Session& session, Diagnostics& diagnostics);

/// Returns the number of steps of the whole run, by train.steps and train.epochs, whichever ends first;
/// nullopt if neither is given, or the length of an epoch is not known. `step` steps are done, and row `row` of
/// the stream of examples comes next.
std::optional<int64_t> planned_steps(const Session& session, int64_t step = 0, int64_t row = 0);
/// Returns the number of rows of the stream in train.epochs, which must be given. Throws Error (kConfig), as
/// planned_steps() does, when there are too many to count.
int64_t rows_of_epochs(const Session& session);

/// Partitions a graph, which must have passed check_layouts(), with the layouts of the session or others.
Program compile(const Session& session, const Graph& graph);
Program compile(const Session& session, const Graph& graph, const Layouts& layouts);
/// Does the same for a graph that has not passed it. Throws Error (kConfig) when the layouts do not fit.
Program compile_checked(const Session& session, const Graph& graph, const Layouts& layouts);
PartitionOptions partition_options_of(const Session& session);
/// Returns the options for other processes than those of the run.
PartitionOptions partition_options_of(const Session& session, const Mesh& mesh, Hosting hosting);
/// With several processes it must be called after check_same_run().
ExecutorOptions executor_options(const Session& session);
/// Variables that one of `shared` has are shared with it.
VariableStoreOptions variable_store_options(const Session& session,
                                            std::vector<const VariableStore*> shared = {});

}  // namespace mtf
