#include "trainer/train/train_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "data/text/text_source.h"
#include "engine/base/nearest.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/costs/choose_microbatches.h"
#include "trainer/costs/prediction.h"
#include "trainer/costs/recompute.h"
#include "trainer/decode/decoding_memory.h"
#include "trainer/memory/memory_check.h"
#include "trainer/session/initial_weights.h"
#include "trainer/session/model_inputs.h"
#include "trainer/session/vocabulary_check.h"
#include "trainer/train/utilization.h"

namespace mtf {
namespace {

/// A choice as one process tells it to the others.
struct ToldChoice {
  Recompute recompute = RecomputeWord::kNone;
  int64_t microbatches = 1;
  std::string reason;
};

void describe(config::Visitor& visit, ToldChoice& choice) {
  visit("recompute", choice.recompute, "");
  visit("microbatches", choice.microbatches, "");
  visit("reason", choice.reason, "");
}

/// Reports an error unless the metric "DATASET/METRIC", the value of `key`, is measured.
void check_metric(const Config& config, const std::vector<EvaluationSet>& sets, const std::string& metric,
                  const std::string& key, Diagnostics& diagnostics) {
  std::vector<std::string> measured;
  for (const EvaluationSet& set : sets) {
    for (const std::string& name : set.metrics) {
      if (is_number(name)) measured.push_back(set.name + "/" + name);
    }
    for (const CommandMetric& command : set.commands) measured.push_back(set.name + "/" + command.name);
  }
  if (std::ranges::find(measured, metric) != measured.end()) return;
  diagnostics.error(config.mark(key), fmt::format("`{}`: no evaluation measures `{}`", key, metric),
                    measured.empty() ? "`evaluate.datasets` with `metrics`" : did_you_mean(metric, measured));
}

/// Checks the metrics that end the run or select checkpoints.
void check_chosen_metrics(const Config& config, const std::vector<EvaluationSet>& sets,
                          Diagnostics& diagnostics) {
  if (config.train.patience)
    check_metric(config, sets, config.train.patience->metric, "train.patience.metric", diagnostics);
  if (config.checkpoint.keep_best)
    check_metric(config, sets, config.checkpoint.keep_best->metric, "checkpoint.keep_best.metric",
                 diagnostics);
}

/// Warns if texts may be longer than the model's table of positions: tokens beyond its end have no position.
void warn_of_positions(const Session& session, Diagnostics& diagnostics) {
  const TextDecoder* decoder = session.model ? session.model->decoder() : nullptr;
  if (decoder == nullptr || !decoder->longest_text() || !session.train_data) return;
  const int64_t positions = *decoder->longest_text();
  for (const Feature& feature : session.train_data->features()) {
    if (!feature.name.ends_with("_position")) continue;
    const int64_t row = feature.shape.dimension("length").size,
                  longest = std::min(row, session.config.data.filter.max_length.value_or(row));
    if (longest <= positions) continue;
    diagnostics.warning(
        session.config.mark("model"),
        fmt::format("texts may have {} tokens, but `model.max_length` has positions for the first {}; "
                    "the others get none (`data.filter.max_length` leaves such texts out)",
                    longest, positions));
    return;
  }
}

/// Notes if the number of microbatches is not that of the run that resumes, if there is one.
void note_microbatches(int64_t count, const std::optional<int64_t>& before, TrainPlan& plan) {
  if (before && count != *before) {
    plan.continuation->changes.push_back(
        fmt::format("`train.microbatches` was {} and is now {}", *before, count));
  }
}

/// Sets train.microbatches, which is auto, to the largest number that a process has chosen, and rebuilds `step`
/// if that changes it. `before` is the number of the run that resumes.
void set_microbatches(Session& session, TrainStepOptions options, const MicrobatchChoice& own,
                      const std::vector<std::string>& chosen, const std::optional<int64_t>& before,
                      TrainPlan& plan, std::optional<TrainStep>& step) {
  int64_t count = own.count;
  for (const std::string& other : chosen) {
    if (!other.empty()) count = std::max<int64_t>(count, std::stoll(other));
  }
  plan.choice = count == own.count
                    ? own.reason
                    : fmt::format("train.microbatches: auto is {}: another process has less memory", count);
  note_microbatches(count, before, plan);
  session.config.train.microbatches.value = count;
  if (count == options.microbatches) return;
  options.microbatches = count;
  step = rebuild_step(session, options);
}

/// Returns the limits of all processes that decide.
ProcessLimits exchanged_limits(const Session& session) {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  const MemoryLimits own = memory_limits(session);
  if (session.processes->size() == 1) return planned_limits(session, own);
  const std::vector<std::string> told = session.processes->exchange(
      "memory", fmt::format("{} {}", own.host.bytes, own.device ? own.device->bytes : kUnknown));
  ProcessLimits all;
  for (int process = 0; process < std::ssize(told); ++process) {
    const std::string& text = told[static_cast<size_t>(process)];
    if (text.empty()) continue;  // it does not decide
    MemoryLimits limits = own;
    const auto set = [&](MemoryLimit& limit, const std::string& bytes) {
      limit.bytes = std::stoll(bytes);
      if (process != session.processes->rank()) limit.source += fmt::format(" of process {}", process);
    };
    const size_t blank = text.find(' ');
    set(limits.host, text.substr(0, blank));
    if (limits.device) set(*limits.device, text.substr(blank + 1));
    all.emplace(process, std::move(limits));
  }
  return all;
}

/// Sets train.recompute, which is auto, and with `request.chooses_microbatches` train.microbatches to what one process has
/// chosen for all, within the limits of all, and rebuilds `step`. `before` is the number of microbatches of the run that
/// resumes.
void set_recompute(Session& session, RecomputeRequest request, const std::optional<int64_t>& before,
                   TrainPlan& plan, std::optional<TrainStep>& step) {
  request.limits = exchanged_limits(session);
  const std::string text = session.processes->made_once("recompute", [&] {
    const RecomputeChoice choice = choose_recompute(session, request);
    return config::to_yaml(config::dump(ToldChoice{choice.recompute, choice.microbatches, choice.reason}));
  });
  Diagnostics of_text;
  const auto choice = config::parse<ToldChoice>(config::load_text(text, "recompute", {}, of_text), of_text);
  of_text.throw_if_errors();
  plan.choice = choice.reason;
  note_microbatches(choice.microbatches, before, plan);
  TrainOptions& train = session.config.train;
  train.recompute = choice.recompute;
  if (request.chooses_microbatches) train.microbatches.value = choice.microbatches;
  TrainStepOptions& options = request.options;
  if (choice.recompute == Recompute(RecomputeWord::kNone) && choice.microbatches == options.microbatches)
    return;
  options.recompute = choice.recompute;
  options.microbatches = choice.microbatches;
  step = rebuild_step(session, options);
}

/// What the run so far has chosen where `train.recompute` is auto now: not `block`, which stands there by hand.
std::optional<EarlierRecompute> earlier_recompute(const Recompute& recompute, int64_t microbatches) {
  if (is_auto(recompute) || recompute == Recompute(RecomputeWord::kBlock)) return std::nullopt;
  return EarlierRecompute{.recompute = recompute, .microbatches = microbatches};
}

void check_labels(const Session& session, const std::optional<Dimension>& classes,
                  const std::vector<EvaluationSet>& sets) {
  if (!classes) return;
  const LabelRange expected = label_range(*session.model, *classes);
  session.train_data->check_labels(expected);
  for (const EvaluationSet& set : sets) set.source->check_labels(expected);
}

/// What `auto` leaves to be chosen, and what the run so far has chosen.
struct OpenChoices {
  bool microbatches = false, recompute = false;  ///< which of the two is `auto`
  std::optional<int64_t> microbatches_before = {};
  std::optional<EarlierRecompute> earlier = {};
};

/// Notes if a batch size that depends on the layout gives other than the `rows` with which the run goes on.
void note_batch_size(const Session& session, int64_t rows, std::optional<Continuation>& continuation) {
  const auto* const size = std::get_if<int64_t>(&session.config.train.batch_size);
  if (!continuation || size == nullptr || *size == rows) return;
  continuation->changes.push_back(fmt::format(
      "`train.batch_size` stays {}, with which the run began: what is given now makes {}", *size, rows));
}

/// Sets `plan.continuation`. `session.config` takes the values that a resumed run fixes, but for train.microbatches and
/// train.recompute, which stay `auto` where they are.
OpenChoices find_run_so_far(Session& session, TrainPlan& plan, Diagnostics& diagnostics) {
  TrainOptions& train = session.config.train;
  OpenChoices open{.microbatches = !train.microbatches.value, .recompute = is_auto(train.recompute)};
  if (!diagnostics.has_errors() && session.config.run.mode == RunMode::kTrain) {
    const int64_t rows = train_batch_size(session.config, session.layouts);
    plan.continuation = find_continuation(session.config, diagnostics);
    note_batch_size(session, rows, plan.continuation);
  }
  std::optional<int64_t>& before = open.microbatches_before;
  if (open.microbatches) before = std::exchange(train.microbatches.value, std::nullopt);
  if (open.recompute) {
    open.earlier = earlier_recompute(std::exchange(train.recompute, RecomputeWord::kAuto),
                                     before ? *before : train.microbatches.value.value_or(1));
  } else if (before) {
    open.earlier = EarlierRecompute{.microbatches = *before};
  }
  if (!open.earlier) open.earlier = session.found_recompute;
  return open;
}

/// The begins of the slots of a run that goes on, as its checkpoint has them; all 0 of a fresh one.
SlotBegins begins_so_far(const std::optional<Continuation>& continuation) {
  if (!continuation || !continuation->checkpoint) return {};
  const std::string& path = continuation->checkpoint->path;
  return *run_state(read_manifest(path), path).slot_begins;
}

/// Reports chosen metrics that nothing measures, and a vocabulary or classes that do not fit the weights that the run
/// starts from.
void check_start(const Session& session, const TrainStep& step, TrainPlan& plan, Diagnostics& diagnostics) {
  check_chosen_metrics(session.config, plan.evaluation_sets, diagnostics);
  if (plan.continuation && plan.continuation->checkpoint) {
    check_vocabulary(session, *plan.continuation, diagnostics);
  } else {
    check_initial_vocabulary(session, *step.graph, diagnostics);
    check_initial_classes(session, step, diagnostics);
  }
}

/// Sets what is `auto` of train.recompute and train.microbatches in `session.config`, and rebuilds `step` if that changes
/// it. Every process takes part: whether their configurations are alike is found out later.
void choose_automatic(Session& session, const OpenChoices& open, const TrainStepOptions& options,
                      const DecodingBytes& decoding, TrainPlan& plan, std::optional<TrainStep>& step) {
  const Program* const evaluated = plan.evaluation ? &*plan.evaluation : nullptr;
  const MemoryUse use = memory_use(session, true, plan.evaluation_sets, decoding);
  std::optional<MicrobatchChoice> choice;
  if (open.recompute) {
    set_recompute(session, {options, open.microbatches, evaluated, use, {}, open.earlier},
                  open.microbatches_before, plan, step);
  } else {
    session.processes->exchange("memory", "");
    if (open.microbatches) choice = choose_microbatches(session, options, evaluated, use, open.earlier);
  }
  const std::vector<std::string> chosen =
      session.processes->exchange("microbatches", choice ? fmt::to_string(choice->count) : "");
  if (choice) set_microbatches(session, options, *choice, chosen, open.microbatches_before, plan, step);
}

}  // namespace

std::vector<const Program*> programs_of(const TrainPlan& plan) {
  std::vector<const Program*> programs{&plan.program};
  if (plan.evaluation) programs.push_back(&*plan.evaluation);
  return programs;
}

void check_vocabulary(const Session& session, Continuation& old, Diagnostics& diagnostics) {
  if (!has_other_vocabulary(session, read_manifest(old.checkpoint->path))) return;
  const Config& config = session.config;
  const std::string line = "the vocabulary is not the one of the run so far";
  if (is_allowed_change(config, "data.vocabulary")) {
    old.changes.push_back(line);
    return;
  }
  diagnostics.error(config.mark("data.vocabulary"),
                    fmt::format("{}, so the ids of {} would mean other tokens", line, old.checkpoint->path),
                    "put its file back, or `run.model_dir=NEW`");
}

void check_before_texts(const Session& session, const Graph* step, bool trains_vocabulary,
                        Diagnostics& diagnostics) {
  Config config = session.config;
  const bool is_fresh = list_checkpoints(checkpoints_directory(config)).empty();
  if (is_fresh && !config.checkpoint.init.path.empty()) check_initial_weights(config.checkpoint.init, step);
  if (!trains_vocabulary) return;
  const std::optional<Continuation> old = find_continuation(config, diagnostics);
  if (old && old->checkpoint && !diagnostics.has_errors() && !is_allowed_change(config, "data.vocabulary")) {
    diagnostics.error(config.mark("data.vocabulary"),
                      fmt::format("{} has checkpoints, but not the vocabulary that they were trained with",
                                  config.run.model_dir.text),
                      "put its file back, or `run.model_dir=NEW`");
  }
  check_chosen_metrics(config, declared_evaluation_sets(session, diagnostics), diagnostics);
  if (!config.evaluate.datasets.empty()) build_evaluation(session, diagnostics);
  diagnostics.throw_if_errors();
  for (const auto& [name, dataset] : config.evaluate.datasets) {
    const TextSourceOptions* const texts = text_source(dataset.choice);
    const Mark mark = config.mark("evaluate.datasets." + name);
    if (texts) read_evaluation_texts(*texts, dataset.extra.references, {}, mark, config.data.text_limit());
  }
}

/// Throws Error for alignments of the training data that the model does not learn.
void check_alignments(const Session& session) {
  const std::vector<std::string> read = session.model->optional_features();
  const std::vector<Feature>& given = session.train_data->features();
  const bool has_alignments = std::ranges::find(given, kAlignmentFeature, &Feature::name) != given.end();
  if (!has_alignments || std::ranges::find(read, kAlignmentFeature) != read.end()) return;
  throw Error(ErrorKind::kConfig, session.config.mark("data.train"),
              "the model does not learn the `alignments` of the data",
              "`model.alignment.weight: 0.05` of a `bitransformer`, or a source without them");
}

TrainPlan make_train_plan(Session& session, Diagnostics& diagnostics) {
  TrainPlan plan;
  const Config& config = session.config;
  const OpenChoices open = find_run_so_far(session, plan, diagnostics);
  TrainStepOptions options = train_step_options(
      config, session.layouts, planned_steps(session).value_or(std::numeric_limits<int64_t>::max()));
  options.update->runs_ahead = runs_ahead(session);
  if (!diagnostics.has_errors())
    options.update->begins = std::make_shared<SlotBegins>(begins_so_far(plan.continuation));
  std::optional<TrainStep> step = build_step(session, options, diagnostics);
  plan.evaluation_sets = open_evaluation_sets(session, diagnostics);
  if (!diagnostics.has_errors()) check_start(session, *step, plan, diagnostics);
  std::unique_ptr<Graph> evaluation;
  if (!plan.evaluation_sets.empty()) evaluation = build_evaluation(session, diagnostics).graph;
  diagnostics.throw_if_errors();
  warn_of_positions(session, diagnostics);
  check_labels(session, step->classes, plan.evaluation_sets);
  check_alignments(session);
  if (session.model->is_aligned()) session.train_data->check_aligned(config.mark("data.train"));
  if (evaluation) {
    plan.evaluation = compile(session, *evaluation);
    plan.conversions = WeightConversions(session, *evaluation, session.layouts);
  }
  const DecodingNeed decoding = evaluation_decoding(session, plan.evaluation_sets);
  choose_automatic(session, open, options, decoding.bytes, plan, step);
  plan.update = *options.update;
  plan.program = compile(session, *step->graph);
  plan.model_flops = model_flops(plan.program);
  step->graph.reset();
  plan.step = std::move(*step);
  if (parameter_servers(config)) {
    plan.servers = plan_parameter_servers(session, diagnostics);
    diagnostics.throw_if_errors();
  }
  plan.memory = check_memory(session, programs_of(plan), true, plan.evaluation_sets, decoding);
  return plan;
}

}  // namespace mtf
