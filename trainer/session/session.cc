#include "trainer/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/counted.h"
#include "engine/base/nearest.h"
#include "engine/base/placed_at.h"
#include "engine/runtime/collective_scratch.h"
#include "engine/spmd/partition/unit_places.h"
#include "engine/spmd/partition/unused_rules.h"
#include "models/model.h"
#include "trainer/config/devices.h"
#include "trainer/config/strategy.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/inputs_parts.h"
#include "trainer/session/open_data.h"
#include "trainer/session/stored_model.h"

namespace mtf {
namespace {

void make_model_of(Session& session, Diagnostics& diagnostics) {
  if (session.config.model.is_null()) return;
  const size_t errors = diagnostics.errors().size();
  const auto options =
      config::parse<ModelChoice>(session.config.model, diagnostics, "model", {}, &configuration_keys);
  std::unique_ptr<Model> model = make_model(options, diagnostics);
  session.outputs = model ? model->outputs() : std::vector<std::string>{"logits"};
  const bool sound = diagnostics.errors().size() == errors && session.config.model.is_complete();
  if (sound) session.model = std::move(model);
}

/// Preferences are also evaluated against their reference model.
bool applies_teacher(const Config& config) {
  if (config.distill && config.distill->weight == 0) return false;
  return has_training_step(config.run.mode) || (config.preference && config.run.mode == RunMode::kEvaluate);
}

/// Opens the teacher, whose student the session's model becomes.
void add_teacher(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  const std::optional<TeacherSection> section = teacher_section(config);
  if (!section || section->options.checkpoint.empty() || !session.model || !applies_teacher(config)) return;
  collect_errors(
      [&] {
        const config::Path& checkpoint = section->options.checkpoint;
        StoredModel stored = open_stored_model(checkpoint, section->options.config);
        const Mark mark = config.mark(section->name);
        if (config.distill) {
          session.model = std::make_unique<Distillation>(std::move(session.model), std::move(stored.model),
                                                         *config.distill, mark);
        } else {
          session.model = std::make_unique<Preference>(std::move(session.model), std::move(stored.model),
                                                       *config.preference, mark);
        }
        session.teacher = Teacher{config.distill ? "teacher" : "reference model", checkpoint.mark,
                                  std::move(stored.path), std::move(stored.manifest)};
      },
      diagnostics);
}

/// True if the layout splits `evaluate.batch_size` evenly; otherwise reports an error that names this key.
bool divides_evaluation_batch(const Session& session, Diagnostics& diagnostics) {
  const auto* size = std::get_if<int64_t>(&session.config.evaluate.batch_size);
  const int64_t parts = LayoutMap(session.layouts.mesh, session.layouts.activation).parts("batch");
  if (!size || *size % parts == 0) return true;
  diagnostics.error(
      session.config.mark("evaluate.batch_size"),
      fmt::format("`layout` cuts `batch` into {} parts, which do not divide `evaluate.batch_size` ({})",
                  parts, *size),
      nearest_multiples(parts, *size));
  return false;
}

/// Reports layout rules of the teacher that neither it nor anything else in the training step uses.
void check_teacher_rules(const Session& session, const DimensionNames& names, Diagnostics& diagnostics) {
  if (!session.teacher) return;
  const TeacherOptions teacher = teacher_section(session.config)->options;
  const LayoutRules none, layout = teacher.layout.value_or(none);
  const std::vector<std::string> unshared;
  Diagnostics of_rules;  // mesh dimensions that split nothing are known from the run's own rules
  check_unused_rules({layout, teacher.parameter_layout, none, unshared}, session.layouts.mesh, names, {},
                     of_rules);
  for (const Problem& problem : of_rules.errors()) diagnostics.add(problem);
}

/// Reports layout rules that neither `known` names nor the evaluation or the training step of the model use.
void check_rules(const Session& session, const std::vector<Feature>& features, DimensionNames known,
                 Diagnostics& diagnostics) {
  const Config& config = session.config;
  LayoutRules layout = config.layout;
  if (const std::optional<Pipeline>& pipeline = session.layouts.pipeline) {
    if (known.tensors.contains(std::string(kLayers))) {
      diagnostics.error(
          pipeline->mark,
          fmt::format("`{}` places blocks on stages, and this model has a dimension of that name", kLayers),
          "another name for the dimension of the model");
    }
    known.tensors.insert(std::string(kLayers));
    layout = layout.plus(LayoutRules({{std::string(kLayers), {pipeline->mesh_dimension}, pipeline->mark}}));
  }
  const Precision precision = precision_of(session.config);
  const GraphMaker evaluation = [&] {
    return build_evaluation(*session.model, features, 1, {precision, averaged_weights(session.config)}).graph;
  };
  const GraphMaker step = [&] {
    return build_train_step(*session.model, features, {.precision = precision, .update = {}}).graph;
  };
  check_unused_rules({layout, config.parameter_layout, config.optimizer_layout, config.shared_layout},
                     session.layouts.mesh, known, {evaluation, step}, diagnostics);
}

}  // namespace

void check_layout_rules(const Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (!session.model || diagnostics.has_errors()) return;
  std::shared_ptr<const Source> examples = session.train_data;
  Diagnostics of_rules;
  try {
    if (!examples && config.data.train) examples = declared_source(config, *config.data.train);
    if (!examples) return;
    check_rules(session, examples->features(), {}, of_rules);
  } catch (const Error& error) {  // errors of the model are reported when the mode builds its own graphs
    if (error.kind() != ErrorKind::kConfig) throw;
  }
  for (const Problem& problem : of_rules.errors()) diagnostics.add(problem);
}

namespace {

/// Adds a note that lower precision is faster on a GPU, as float32 is the default on every device, or that it is not on this
/// processor.
void hint_at_precision(const Session& session, Diagnostics& diagnostics) {
  const PrecisionOptions& precision = session.config.precision;
  if (session.config.run.mode != RunMode::kTrain) return;
  if (session.backend->is_host()) {
    if (precision.matmul == MatmulPrecision::kBFloat16 &&
        !(instruction_set() >= InstructionSet::kAvx512 && has_avx512_bf16()))
      diagnostics.note(
          "precision.matmul=bfloat16 is no faster than float32 here: the kernels of this run use no "
          "AVX512-BF16, "
          "and compute the same numbers with instructions for float32");
    return;
  }
  if (precision.activation != ElementType::kFloat32 || precision.matmul != MatmulPrecision::kFull) return;
  diagnostics.note(
      "the GPU computes in float32; precision.activation=bfloat16 or precision.matmul=tf32 is several times "
      "as fast");
}

/// Makes the backend use what run.attention says. Throws Error (kConfig) if the library is named and missing.
void choose_attention(const Session& session, Diagnostics& diagnostics) {
  const AttentionChoice choice = session.config.run.attention;
  if (choice == AttentionChoice::kOwn) return;
  const bool is_auto = choice == AttentionChoice::kAuto;
  if (is_auto && session.config.precision.activation != ElementType::kBFloat16) return;
  try {
    const bool is_used = session.backend->use_attention_library(
        is_auto ? AttentionLibraryUse::kWhereFaster : AttentionLibraryUse::kWhereItComputes);
    if (!is_used && !is_auto && session.backend->is_host())
      diagnostics.warning(session.config.mark("run.attention"),
                          "`run.attention: cudnn` is for GPUs: kernels of mtf-train compute attention");
  } catch (const Error& error) {
    const Problem& problem = error.problems().front();
    if (is_auto) {
      return diagnostics.note(
          fmt::format("attention without segments is two to three times as fast by cuDNN: {}; {}",
                      problem.message, problem.hint));
    }
    throw Error(ErrorKind::kConfig, session.config.mark("run.attention"),
                fmt::format("`run.attention: cudnn`: {}", problem.message), problem.hint);
  }
}

/// Warns if `offload` has no effect: the processor has one memory.
void warn_of_offload(const Session& session, Diagnostics& diagnostics) {
  if (!has_training_step(session.config.run.mode)) return;
  if (session.config.offload.activations == MemoryPlace::kHost && !offloaded_bytes(session.config)) {
    diagnostics.warning(session.config.mark("offload.activations"),
                        "`offload.activations: host` is for GPUs: the processor has one memory");
  }
  if (session.config.offload.slots == MemoryPlace::kDevice || slots_on_host(session.config)) return;
  diagnostics.warning(
      session.config.mark("offload.slots"),
      "`offload.slots: host` is for GPUs: the optimizer computes on the processor, in its memory");
}

}  // namespace

Session open_session(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                     Diagnostics& diagnostics) {
  return open_session(load_config(files, arguments, diagnostics), one_process(), diagnostics);
}

Session open_session(Config config, std::shared_ptr<ProcessGroup> processes, Diagnostics& diagnostics,
                     const BeforeTexts& before_texts) {
  Session session{std::move(config), std::move(processes), {}, nullptr, nullptr, {}, {}, nullptr, {}, {}};
  collect_errors(
      [&] { set_instruction_set(chosen_instruction_set(session.config, available_instruction_sets())); },
      diagnostics);
  collect_errors([&] { session.backend = make_backend(session.config); }, diagnostics);
  if (!session.backend) session.backend = make_cpu_backend();  // to find further errors
  collect_errors([&] { choose_attention(session, diagnostics); }, diagnostics);
  warn_of_offload(session, diagnostics);
  session.device_budget = device_budget(session);
  hint_at_precision(session, diagnostics);
  make_model_of(session, diagnostics);
  add_teacher(session, diagnostics);
  check_text_rows(session, diagnostics);
  collect_errors([&] { session.layouts = make_layouts(session.config); }, diagnostics);
  // The other processes use the caches and vocabularies that the first one makes.
  session.processes->first_then_others("data",
                                       [&] { open_training_data(session, before_texts, diagnostics); });
  if (!has_training_step(session.config.run.mode)) check_layout_rules(session, diagnostics);
  return session;
}

bool is_predictor(const Session& session) { return session.model && session.model->decoder() == nullptr; }

bool runs_ahead(const Session& session) {
  return !session.backend->is_host() && !parameter_servers(session.config);
}

namespace {

/// Those of an H100 (configs/hardware/h100_8x_nvlink_400g.yaml): 690 TFLOP/s of products in bfloat16, of memory 2.85 TB/s, of
/// NVLink 360 GB/s. Section `hardware` has no say: only run.mode=explain reads it, and must show the program that trains.
constexpr PipelineCosts kGpuPipelineCosts{.read_byte = 250, .sent_byte = 2000};

/// With one microbatch the stages of a pipeline work one after the other.
void warn_of_one_microbatch(const Session& session, Diagnostics& diagnostics) {
  const std::optional<Pipeline>& pipeline = session.layouts.pipeline;
  if (!pipeline || session.config.train.microbatches.value != 1) return;
  const int64_t stages = pipeline->stages(session.layouts.mesh);
  if (stages == 1) return;
  diagnostics.warning(
      session.config.mark("train.microbatches"),
      fmt::format("with one microbatch the {} stages of the pipeline work one after the other: "
                  "`train.microbatches: {}`, or more",
                  stages, 2 * stages));
}

/// Builds the step. Where data.train lacks a feature that the model needs, that is the place of the error.
TrainStep step_of(const Session& session, const TrainStepOptions& options) {
  const std::vector<Feature>& features = session.train_data->features();
  try {
    return build_train_step(*session.model, features, options);
  } catch (const Error& error) {
    const auto is_lacking = [&](const std::string& name) {
      return std::ranges::find(features, name, &Feature::name) == features.end();
    };
    if (!std::ranges::any_of(session.model->features(), is_lacking)) throw;
    throw placed_at(error, session.config.mark("data.train"));
  }
}

}  // namespace

std::optional<TrainStep> build_step(const Session& session, const TrainStepOptions& options,
                                    Diagnostics& diagnostics) {
  if (!session.model || !session.train_data) return std::nullopt;
  std::optional<TrainStep> step;
  collect_errors(
      [&] {
        step = step_of(session, options);
        check_layouts(*step->graph, session.layouts, diagnostics);
        check_pipeline(*step->graph, session.layouts, diagnostics);
        warn_of_one_microbatch(session, diagnostics);
        DimensionNames names;
        names.add(*step->graph);
        check_teacher_rules(session, names, diagnostics);
        check_rules(session, session.train_data->features(), names, diagnostics);
      },
      diagnostics);
  return step;
}

std::optional<TrainStep> rebuild_step(const Session& session, const TrainStepOptions& options) {
  Diagnostics diagnostics;
  std::optional<TrainStep> step = build_step(session, options, diagnostics);
  diagnostics.throw_if_errors();
  return step;
}

EvaluationGraph build_evaluation(const Session& session, Diagnostics& diagnostics) {
  EvaluationGraph evaluation;
  if (!session.model || !session.train_data) return evaluation;
  const int64_t batch_size = evaluate_batch_size(session.config, session.layouts);
  collect_errors(
      [&] {
        evaluation = build_evaluation(*session.model, session.train_data->features(), batch_size,
                                      evaluation_graph_options(session));
        const Graph& graph = *evaluation.graph;
        // Problems of the layout also occur in the training step, and are reported only once.
        if (diagnostics.has_errors()) return;
        Diagnostics of_evaluation;
        check_layouts(graph, session.layouts, of_evaluation);
        if (of_evaluation.has_errors() && !divides_evaluation_batch(session, diagnostics)) return;
        if (!has_training_step(session.config.run.mode))
          check_pipeline(graph, session.layouts, of_evaluation);
        for (const Problem& problem : of_evaluation.errors()) diagnostics.add(problem);
      },
      diagnostics);
  return evaluation;
}

std::optional<int64_t> planned_steps(const Session& session, int64_t step, int64_t row) {
  std::optional<int64_t> steps = session.config.train.steps;
  if (session.config.train.epochs && session.train_data) {
    if (!session.train_data->has_examples()) return std::nullopt;
    const int64_t batch = train_batch_size(session.config, session.layouts);
    const int64_t left = std::max<int64_t>(0, rows_of_epochs(session) - row);
    const int64_t of_epochs = step + left / batch + (left % batch > 0 ? 1 : 0);
    steps = std::min(steps.value_or(of_epochs), of_epochs);
  }
  return steps;
}

int64_t rows_of_epochs(const Session& session) {
  constexpr double kMost = 0x1p62;  // sums of rows and steps do not overflow
  const double epochs = *session.config.train.epochs;
  const auto examples = static_cast<double>(session.train_data->examples());
  const double rows = std::ceil(epochs * examples - 1e-9);
  if (!(rows <= kMost)) {
    throw Error(ErrorKind::kConfig, session.config.mark("train.epochs"),
                fmt::format("`train.epochs`: {:g} passes over {} are too many to count", epochs,
                            counted(session.train_data->examples(), "example")),
                fmt::format("at most {:.0e}", std::pow(10, std::floor(std::log10(kMost / examples)))));
  }
  return std::max<int64_t>(1, std::llround(rows));
}

Program compile(const Session& session, const Graph& graph) {
  return compile(session, graph, session.layouts);
}

Program compile(const Session& session, const Graph& graph, const Layouts& layouts) {
  return partition(graph, layouts, partition_options_of(session, layouts.mesh, hosting_of(session.config)));
}

Program compile_checked(const Session& session, const Graph& graph, const Layouts& layouts) {
  Diagnostics diagnostics;
  check_layouts(graph, layouts, diagnostics);
  check_pipeline(graph, layouts, diagnostics);
  diagnostics.throw_if_errors();
  return compile(session, graph, layouts);
}

PartitionOptions partition_options_of(const Session& session) {
  return partition_options_of(session, session.layouts.mesh, hosting_of(session.config));
}

PartitionOptions partition_options_of(const Session& session, const Mesh& mesh, Hosting hosting) {
  const TrainOptions& train = session.config.train;
  const ClusterConfig& cluster = session.config.cluster;
  FlightOptions flights;
  if (const auto& memory = cluster.overlap_memory.value) flights.more = memory->value;
  if (!session.backend->is_host() && cluster.collectives != Collectives::kGloo) {
    // All processes plan with the hosting of process 0, since they need the same program. It is made before
    // they know whether they can use NCCL.
    const auto scratch = std::make_shared<CollectiveScratch>(HostedMesh(mesh, {hosting.processes, 0}),
                                                             session.config.run.check_replicas);
    flights.scratch = [scratch](const Program& program, const Instruction& instruction) {
      return scratch->bytes(program, instruction);
    };
  }
  return {.keep_gathered = train.keep_gathered,
          .gather_ahead = train.gather_ahead,
          .asynchronous = hosting.processes > 1 && cluster.overlap,
          .flights = std::move(flights),
          .fuse_norm_parameters = !session.backend->is_host(),
          .fuse_epilogues = !session.backend->is_host(),
          .fuse_elementwise = session.backend->fuses_elementwise(),
          .group_variables = !session.backend->is_host(),
          .stack_products = !session.backend->is_host(),
          .offloaded_bytes = offloaded_bytes(session.config),
          .costs = session.backend->is_host() ? PipelineCosts{} : kGpuPipelineCosts};
}

ExecutorOptions executor_options(const Session& session) {
  ExecutorOptions options;
  options.threads = thread_count(session.config);
  options.seed = static_cast<uint64_t>(session.config.run.seed);
  options.check_replicas = session.config.run.check_replicas;
  options.communicator = session.collective_backend.communicator
                             ? session.collective_backend.communicator.get()
                             : &session.processes->communicator();
  options.overlap = session.config.cluster.overlap;
  options.profile = session.profile.get();
  return options;
}

VariableStoreOptions variable_store_options(const Session& session,
                                            std::vector<const VariableStore*> shared) {
  return {.replicate = session.config.run.check_replicas,
          .shared = std::move(shared),
          .communicator = &session.processes->communicator()};
}

}  // namespace mtf
