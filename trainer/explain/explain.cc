#include "trainer/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <string_view>

#include "data/paths.h"
#include "engine/runtime/remote_traffic.h"
#include "engine/spmd/passes/pipeline_order.h"
#include "trainer/costs/choose_microbatches.h"
#include "trainer/decode/decoding_memory.h"
#include "trainer/explain/explanation_html.h"
#include "trainer/explain/explanation_json.h"
#include "trainer/explain/explanation_text.h"
#include "trainer/memory/memory_check.h"
#include "trainer/session/evaluation_sets.h"

namespace mtf {
namespace {

/// Collects the work of each layer. The layers keep the order in which they are added.
class LayerTable {
 public:
  /// Returns the entry of a layer. The updates of all variables form one layer.
  LayerWork& of(const std::string& path, Phase phase) {
    std::string_view name = path;
    if (phase == Phase::kUpdate) name = name.substr(0, name.find('/'));
    auto found = index_.find(name);
    if (found == index_.end()) {
      found = index_.emplace(name, layers_.size()).first;
      layers_.push_back({.path = found->first});
    }
    return layers_[found->second];
  }
  std::vector<LayerWork> take() { return std::move(layers_); }

 private:
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<LayerWork> layers_;
};

void add_work(const WorkFact& fact, KindWork& total) {
  total.operations += fact.times;
  total.flops += fact.work.flops * static_cast<double>(fact.times);
  total.bytes += fact.work.bytes * static_cast<double>(fact.times);
}

/// Sets the work of the step by kind and by layer, and that of its transposes.
void add_up_work(Explanation& explanation) {
  const ExplainedProgram& step = explanation.step;
  LayerTable layers;
  for (const ProgramVariable& v : step.program.variables) {
    if (v.variable.kind != Variable::Kind::kWeight) continue;
    const size_t slash = v.variable.name.rfind('/');
    layers.of(slash == std::string::npos ? "" : v.variable.name.substr(0, slash), Phase::kForward)
        .parameters += v.variable.shape.size();
  }
  for (const ContractionFact& c : step.facts.contractions)
    layers.of(c.origin.layer.path(), c.origin.phase).flops[static_cast<size_t>(c.origin.phase)] += c.flops;
  for (const CollectiveFact& c : step.facts.collectives)
    layers.of(c.origin.layer.path(), c.origin.phase).bytes_sent +=
        c.bytes_sent * static_cast<double>(c.times);
  for_each_work(step.program, [&](const WorkFact& fact) {
    const auto& [origin, times, work] = fact;
    LayerWork& layer = layers.of(origin.layer.path(), origin.phase);
    layer.operations += times;
    if (!has_flops(work.kind) && work.kind != WorkKind::kCollective)
      layer.bytes_moved += work.bytes * static_cast<double>(times);
    add_work(fact, explanation.work[static_cast<size_t>(work.kind)]);
    if (origin.operation == "transpose") add_work(fact, explanation.transposes);
  });
  explanation.layers = layers.take();
}

ExplainedProcesses explained_processes(const Session& session, const Program& step) {
  constexpr int kMany = 16;  // each process costs as much as preparing a run
  const bool on_device = expects_nccl(session), replicate = session.config.run.check_replicas;
  const int count = hosting_of(session.config).processes, looked_at = count > kMany ? 1 : count;
  ExplainedProcesses processes{count, step.mesh.size() / count, 0};
  for (int process = 0; process < looked_at; ++process)
    processes.bytes_sent += remote_traffic(step, {count, process}, replicate, on_device) / looked_at;
  return processes;
}

AxisMask unused_axes(const Program& program) {
  AxisMask unused = 0;
  for (int axis = 0; axis < program.mesh.rank(); ++axis) {
    if (program.mesh.size(axis) > 1) unused |= axis_bit(axis);
  }
  const auto use = [&unused](const Layout& layout) {
    unused &= ~(layout.split_axes() | (layout.pin ? axis_bit(layout.pin->axis) : 0));
  };
  for (const Value& value : program.values) use(value.layout);
  for (const ProgramVariable& v : program.variables) use(v.layout);
  return unused;
}

ExplainedRun explained_run(const Config& config) {
  ExplainedRun run{.name = std::filesystem::path(config.run.model_dir.text).filename().string(),
                   .model = {},
                   .layout = config.layout,
                   .parameter_layout = config.parameter_layout,
                   .optimizer_layout = config.optimizer_layout,
                   .peak_flops = config.run.peak_flops.value};
  if (const config::Node* type = config.model.find("type")) run.model = type->text();
  return run;
}

ExplainedHardware explained_hardware(const Config& config, const CostModel& model,
                                     const Explanation& explanation) {
  ExplainedHardware hardware{.is_given = config.machine.has_value(), .options = model.hardware()};
  const double seconds = explanation.prediction.seconds;
  if (seconds <= 0) return hardware;
  hardware.examples_per_second = static_cast<double>(explanation.step.batch_size) / seconds;
  if (config.data.sequence_length)
    hardware.tokens_per_second = hardware.examples_per_second * static_cast<double>(longest_row(config));
  const Precision precision = precision_of(config);
  const FactorType factors = factor_type(precision.activation, precision.matmul);
  hardware.utilization = explanation.step.facts.model_flops / seconds / model.peak_flops(factors);
  return hardware;
}

std::optional<ExplainedPipeline> explained_pipeline(const Layouts& layouts, const Program& step,
                                                    int64_t microbatches, const ExplainedMemory& memory) {
  if (!layouts.pipeline) return std::nullopt;
  const Pipeline& pipeline = *layouts.pipeline;
  const int64_t stages = pipeline.stages(step.mesh);
  ExplainedPipeline result{pipeline.mesh_dimension,
                           stages,
                           pipeline.rounds,
                           pipeline.schedule,
                           pipeline_bubble(pipeline.placed->stages, microbatches, pipeline.schedule),
                           memory.stages,
                           {}};
  result.bytes.resize(static_cast<size_t>(stages));
  result.parameters.resize(static_cast<size_t>(stages));
  for (const ProgramVariable& v : step.variables) {
    if (v.variable.kind == Variable::Kind::kWeight && v.layout.pin)
      result.parameters[static_cast<size_t>(v.layout.pin->coordinate)] += v.variable.shape.size();
  }
  return result;
}

/// Adds a text unless it is already there: the two programs of a run have the same variables and report the
/// same rules.
void add_unique(std::string text, std::vector<std::string>& texts) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
}

/// Returns the data sets of evaluate.datasets. If their files do not exist, since the plan is for another
/// machine, returns none and adds to `notes` that their memory is not counted.
std::vector<EvaluationSet> evaluation_sets(const Session& session, Diagnostics& diagnostics,
                                           std::vector<std::string>& notes) {
  std::vector<Problem> missing;
  for (auto [name, dataset] : session.config.evaluate.datasets) {
    if (dataset.choice->has_tokens()) continue;  // sources of text need no files here
    std::vector<config::Path> paths;
    for (const config::Path* path : paths_of(dataset)) paths.push_back(*path);
    find_files(paths, missing);
  }
  const auto not_counted = [&](const std::string& reason) {
    notes.push_back(fmt::format("the memory of the evaluation data is not counted: {}", reason));
    return std::vector<EvaluationSet>();
  };
  if (!missing.empty()) {
    declared_evaluation_sets(session, diagnostics);  // checks the metrics
    return not_counted(Error(std::move(missing)).what());
  }
  try {
    return open_evaluation_sets(session, diagnostics);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return not_counted(error.what());
  }
}

/// Decides what is `auto` of train.recompute and train.microbatches, as training would, and sets it in `options`. Returns
/// false if neither is.
bool choose_automatic(const Session& session, const std::vector<EvaluationSet>& sets,
                      TrainStepOptions& options, Explanation& result) {
  const TrainOptions& train = session.config.train;
  const bool chooses_microbatches = !train.microbatches.value, chooses_recompute = is_auto(train.recompute);
  if (!chooses_microbatches && !chooses_recompute) return false;
  const Program* const evaluated = result.evaluation ? &result.evaluation->program : nullptr;
  const MemoryUse use = memory_use(session, true, sets, evaluation_decoding(session, sets).bytes);
  if (chooses_recompute) {
    result.recompute = choose_recompute(session, {.options = options,
                                                  .chooses_microbatches = chooses_microbatches,
                                                  .evaluation = evaluated,
                                                  .use = use,
                                                  .limits = planned_limits(session, memory_limits(session)),
                                                  .before = session.found_recompute,
                                                  .compares_block = !session.found_recompute});
    add_unique(result.recompute->reason, result.notes);
    options.recompute = result.recompute->recompute;
    options.microbatches = result.recompute->microbatches;
  } else {
    const MicrobatchChoice choice =
        choose_microbatches(session, options, evaluated, use, session.found_recompute);
    add_unique(choice.reason, result.notes);
    options.microbatches = choice.count;
  }
  return true;
}

/// Sets what follows from the training step and, for the memory, from the evaluation, which `result` has.
void explain_step(const Session& session, const Graph& graph, const std::vector<EvaluationSet>& sets,
                  const CostModel& model, int64_t batch_size, Explanation& result) {
  result.step = {compile(session, graph), {}, batch_size};
  const Program& program = result.step.program;
  std::vector<const Program*> programs{&program};
  if (result.evaluation) programs.push_back(&result.evaluation->program);
  // The parts of the plan that take long are made side by side.
  std::future<ExplainedMemory> memory =
      std::async(std::launch::async, [&] { return explain_memory(session, programs, sets); });
  std::future<std::vector<ScheduleItem>> schedule =
      std::async(std::launch::async, [&] { return schedule_of(program, model); });
  result.step.facts = program_facts(program);
  result.processes = explained_processes(session, program);
  add_up_work(result);
  result.schedule = schedule.get();
  result.prediction = predict_step(result.schedule, model.step_seconds());
  result.hardware = explained_hardware(session.config, model, result);
  result.memory = memory.get();
  result.pipeline = explained_pipeline(session.layouts, program, result.microbatches, result.memory);
  result.splits = try_splits(session, graph, program, result.step.facts);
  result.unused_axes = unused_axes(program);
}

/// Adds what was reported while the programs were made.
void add_messages(const Session& session, const TrainStep& step, const Diagnostics& diagnostics,
                  Explanation& result) {
  for (const Problem& warning : diagnostics.warnings()) add_unique(warning.to_string(), result.warnings);
  for (const std::string& warning : step.warnings) add_unique(warning, result.warnings);
  for (const std::string& note : diagnostics.notes()) add_unique(note, result.notes);
  for (const std::string& note : step.notes) add_unique(note, result.notes);
  for (const BackendNote& note : session.backend->take_notes())
    add_unique(note.text, note.is_warning ? result.warnings : result.notes);
  if (std::holds_alternative<ParameterServerStrategy>(session.config.train.strategy))
    add_unique("this is the step without parameter servers: with the update, and its traffic, in the workers",
               result.notes);
}

}  // namespace

Explanation make_explanation(const Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  const int64_t steps = planned_steps(session).value_or(std::numeric_limits<int64_t>::max());
  TrainStepOptions options = train_step_options(config, session.layouts, steps);
  options.update->runs_ahead = runs_ahead(session);
  std::optional<TrainStep> step = build_step(session, options, diagnostics);
  Explanation result;
  result.run = explained_run(config);
  const std::vector<EvaluationSet> sets = evaluation_sets(session, diagnostics, result.notes);
  std::unique_ptr<Graph> evaluation;
  if (!config.evaluate.datasets.empty()) evaluation = build_evaluation(session, diagnostics).graph;
  const CostModel model =
      cost_model_of(config, session.layouts.mesh, !session.backend->is_host(), diagnostics);
  diagnostics.throw_if_errors();

  if (evaluation) {
    Program program = compile(session, *evaluation);
    ProgramFacts facts = program_facts(program);
    result.evaluation = {std::move(program), std::move(facts), evaluate_batch_size(config, session.layouts)};
  }
  if (choose_automatic(session, sets, options, result)) step = rebuild_step(session, options);
  result.microbatches = options.microbatches;
  explain_step(session, *step->graph, sets, model, options.batch_size, result);
  add_messages(session, *step, diagnostics, result);
  return result;
}

void explain(const Session& session, Diagnostics& diagnostics, const std::vector<ExplainPart>& parts) {
  Explanation explanation = make_explanation(session, diagnostics);
  if (hosting_of(session.config).process != 0) return;
  for (const ExplainPart& part : parts) {
    if (std::optional<ExplainedPart> explained = part(session, explanation))
      explanation.parts.push_back(std::move(*explained));
  }
  const ExplainOptions& options = session.config.explain;
  switch (options.format) {
    case ExplainFormat::kText:
      fmt::print("{}", explain_text(explanation, options));
      break;
    case ExplainFormat::kJson:
      fmt::print("{}", explain_json(explanation, options.tensors));
      break;
    case ExplainFormat::kHtml:
      fmt::print("{}", explain_html(explanation, options.tensors));
      break;
  }
}

}  // namespace mtf
