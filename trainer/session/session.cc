#include "trainer/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "data/class_names.h"
#include "data/sources/held_out.h"
#include "data/text/token_store.h"
#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/counted.h"
#include "engine/base/nearest.h"
#include "engine/base/printable.h"
#include "engine/runtime/collective_scratch.h"
#include "engine/spmd/partition/unit_places.h"
#include "engine/spmd/partition/unused_rules.h"
#include "models/model.h"
#include "trainer/config/devices.h"
#include "trainer/config/strategy.h"
#include "trainer/report/progress.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/stored_model.h"
#include "trainer/session/vocabulary_check.h"

namespace mtf {
namespace {

uint64_t data_seed(const Config& config) {
  return static_cast<uint64_t>(config.data.seed.value_or(config.run.seed));
}

/// Calls `build()` and adds its configuration errors to `diagnostics`.
template <class Build>
void collect_errors(const Build& build, Diagnostics& diagnostics) {
  try {
    build();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
    diagnostics.add(error);
  }
}

/// Shows the progress of preparing a source and, for training, the report on its texts.
void show_progress(SourceContext& context) {
  TextSettings& settings = context.text;
  const auto progress = std::make_shared<Progress>(ProgressOptions{});
  context.progress = [progress](std::string_view what, int64_t done, int64_t total) {
    progress->update(WorkState{what, done, total});
  };
  context.note = [progress](const std::string& line) { progress->info(line); };
  const auto waiting = std::make_shared<bool>(false);
  settings.progress = [progress, waiting](TextStage stage, int64_t done, int64_t total) {
    if (stage == TextStage::kWait) {
      if (!std::exchange(*waiting, true))
        progress->info("waiting for another process that tokenises the same texts");
      return;
    }
    const std::string_view what = stage == TextStage::kCheck      ? "checking texts"
                                  : stage == TextStage::kTokenise ? "tokenising"
                                                                  : "packing";
    progress->update(WorkState{what, done, total});
  };
  settings.note = [progress](const std::string& line) { progress->info(line); };
  if (settings.purpose == TextPurpose::kTraining)
    settings.report = [progress](const TextReport& report) { progress->info(report.to_string()); };
}

/// The examples of a run that trains tell what it needs to know of its training data; those that are given to trained weights
/// do not, data.train of the same run apart, and the evaluation of a run whose training data needed nothing, as during training.
bool prepares(const Config& config, bool training) {
  const bool evaluates = config.run.mode == RunMode::kEvaluate;
  if (!evaluates && config.run.mode != RunMode::kInfer) return true;
  if (takes_weights_by_path(config)) return false;
  return training || (evaluates && stored_preparation(config).empty());
}

SourceContext context_of(const Session& session, TextPurpose purpose, const Mark& mark) {
  SourceContext context{.seed = data_seed(session.config), .mark = mark};
  context.text = text_settings(session.config.data, session.vocabularies);
  context.text.purpose = purpose;
  context.threads = context.text.threads = thread_count(session.config);
  context.cache = session.config.data.cache.text;
  context.training = purpose == TextPurpose::kTraining;
  context.preparation = session.preparation;
  context.prepares = prepares(session.config, context.training);
  if (context.training) context.split = SplitRule(session.config.data.split);
  if (session.processes->is_first()) show_progress(context);
  return context;
}

/// Calls `open()`. False if it failed with an error of the configuration, which is added to `diagnostics`.
template <class Open>
bool opened(const Open& open, Diagnostics& diagnostics) {
  try {
    open();
    return true;
  } catch (const Error& error) {
    if (diagnostics.has_errors()) return false;  // the errors of the configuration are reported first
    if (error.kind() != ErrorKind::kConfig) throw;
    diagnostics.add(error);
    return false;
  }
}

/// Opens data.train and what is held out of it.
void open_train_sources(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  opened(
      [&] {
        const SourceContext context = context_of(session, TextPurpose::kTraining, config.mark("data.train"));
        SplitSource sources = open_split_sources(*config.data.train, context);
        session.train_data =
            augmented(std::move(sources.train), augment_settings(config, AugmentFor::kTraining));
        for (size_t i = 0; i < sources.parts.size(); ++i)
          session.held_out[context.split.names()[i]] =
              augmented(std::move(sources.parts[i]), augment_settings(config, AugmentFor::kEvaluation));
        session.preparation = session.train_data->preparation();
      },
      diagnostics);
}

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

/// Opens the teacher of section `distill`, whose student the session's model becomes.
void add_teacher(Session& session, Diagnostics& diagnostics) {
  const std::optional<DistillOptions>& distill = session.config.distill;
  if (!distill || distill->checkpoint.empty() || distill->weight == 0 || !session.model ||
      !has_training_step(session.config.run.mode))
    return;
  collect_errors(
      [&] {
        StoredModel teacher = open_stored_model(distill->checkpoint, distill->config);
        session.teacher = Teacher{std::move(teacher.path), std::move(teacher.manifest)};
        session.model = std::make_unique<Distillation>(std::move(session.model), std::move(teacher.model),
                                                       *distill, session.config.mark("distill"));
      },
      diagnostics);
}

BySide<int64_t> declared_sizes(const Config& config) {
  const Mark mark = config.mark("data.vocabulary");
  const BySide<LanguageVocabulary> languages = by_side(*config.data.vocabulary);
  return {vocabulary_size(languages.inputs, mark), vocabulary_size(languages.targets, mark)};
}

/// Returns data.train without examples, with the features that the configuration declares, for modes that
/// read no examples and for runs whose vocabulary is still to be trained. Returns null if only the files
/// determine the features. Throws Error (kConfig) if an augmentation does not fit.
std::shared_ptr<const Source> declared_source(const Config& config, const TrainSourceOptions& options) {
  const bool has_sizes = config.data.vocabulary && config.data.sequence_length;
  if (has_texts(options) && !has_sizes) return nullptr;
  auto features = has_sizes ? declared_features(options, sequence_lengths(*config.data.sequence_length),
                                                declared_sizes(config))
                            : declared_features(options, {}, {});
  if (!features) return nullptr;
  return std::make_shared<DeclaredSource>(
      augmented_features(*features, augment_settings(config, AugmentFor::kTraining)));
}

bool looks_at_examples(const Config& config) {
  return config.run.mode != RunMode::kExplain && config.run.mode != RunMode::kTrace;
}

/// Returns a text that differs for other texts of data.train.
std::string key_of_texts(const Config& config) {
  std::vector<const SourceChoice*> sources;
  if (const auto* const one = std::get_if<SourceChoice>(&*config.data.train)) {
    sources.push_back(one);
  } else {
    for (const auto& [name, source] : std::get<NamedSources>(*config.data.train))
      sources.push_back(&source.choice);
  }
  std::string key;
  for (const SourceChoice* source : sources) key += texts_key(*source, config.data.cache.text) + "\n";
  return key;
}

/// True for the run itself: what it trains on, its vocabulary included, is that of run.model_dir.
bool trains_here(const Config& config) {
  return config.run.mode == RunMode::kTrain && parameter_servers(config) == nullptr;
}

/// The texts of which the run's vocabularies are made.
VocabularyTexts vocabulary_texts(const Config& config) {
  return {.for_each =
              [&config](const std::function<void(Side, std::string_view)>& use) {
                for_each_text(config.data, config.mark("data.train"), use);
              },
          .key = [&config] { return key_of_texts(config); },
          .may_replace = trains_here(config) && !has_checkpoints(config)};
}

/// Trains vocabularies that are missing or of other texts, if the run has no errors, and opens the vocabularies.
void open_vocabularies(Session& session, const BeforeTexts& before_texts, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (!config.data.vocabulary || diagnostics.has_errors()) return;
  const bool trains = config.run.mode == RunMode::kTrain || config.run.mode == RunMode::kBench;
  if (trains && config.data.train) {
    collect_errors([&] { session.train_data = declared_source(config, *config.data.train); }, diagnostics);
    std::optional<TrainStep> step;
    if (session.train_data) {
      const int64_t any = std::numeric_limits<int64_t>::max();
      Diagnostics first_look;  // its warnings are dropped; the step that is run repeats them
      step = build_step(session, train_step_options(config, session.layouts, any), first_look);
      for (const Problem& problem : first_look.errors()) diagnostics.add(problem);
    }
    diagnostics.throw_if_errors();
    const VocabularyChoice& vocabulary = *config.data.vocabulary;
    const std::string& directory = config.run.model_dir.text;
    const VocabularyTexts texts = vocabulary_texts(config);
    if (trains_here(config)) hold_directory(session);  // a process that trains there uses the vocabulary
    if (before_texts)
      before_texts(
          session, step ? step->graph.get() : nullptr,
          replaces_vocabulary(vocabulary, directory, texts) || lacks_vocabulary(vocabulary, directory),
          diagnostics);
    train_vocabularies(
        vocabulary, directory, texts, [](const std::string& line) { fmt::print(stderr, "{}\n", line); },
        config.mark("data.vocabulary"));
  }
  session.vocabularies =
      read_vocabularies(*config.data.vocabulary, config.run.model_dir.text, config.mark("data.vocabulary"));
  if (session.teacher && has_other_vocabulary(session, session.teacher->manifest)) {
    diagnostics.error(
        config.distill->checkpoint.mark,
        fmt::format("the teacher {} was trained with another vocabulary, so its ids mean other tokens",
                    session.teacher->path),
        "`data.vocabulary` with the file of the teacher's run");
    diagnostics.throw_if_errors();
  }
}

/// True where an evaluation needs a part of data.train.
bool evaluates_held_out(const Config& config) {
  return std::ranges::any_of(config.evaluate.datasets,
                             [](const auto& dataset) { return dataset.second.choice.type() == kHeldOut; });
}

/// Returns the features of the model, without examples, for modes that read texts from other files.
std::shared_ptr<const Source> declared_texts(const Session& session) {
  std::vector<Feature> features;
  for (const Side side : kSides) {
    if (const auto& vocabulary = session.vocabularies[side])
      features.push_back({std::string(name_of(side)), {{"length", 1}}, DType::kInt32, vocabulary->size()});
  }
  return std::make_shared<DeclaredSource>(std::move(features));
}

/// Reports classes that mean something else to the teacher (section `distill`) than in data.train.
void check_teacher_classes(const Session& session, Diagnostics& diagnostics) {
  if (!session.teacher || !session.train_data) return;
  const std::vector<std::string> own = session.train_data->class_names(),
                                 theirs = prepared_names(preparation_at(session.teacher->path), "classes")
                                              .value_or(std::vector<std::string>());
  if (own.empty() || theirs.empty()) return;
  const auto [here, there] = std::ranges::mismatch(own, theirs);
  if (here == own.end() && there == theirs.end()) return;
  const auto name_in = [](const std::vector<std::string>& names, auto name) {
    return name == names.end() ? std::string("missing") : fmt::format("`{}`", printable(*name));
  };
  diagnostics.error(
      session.config.distill->checkpoint.mark,
      fmt::format("class {} of data.train is {}, and of the teacher {} it is {}", here - own.begin(),
                  name_in(own, here), session.teacher->path, name_in(theirs, there)),
      "data with the classes of the teacher, in their order");
}

void open_training_data(Session& session, const BeforeTexts& before_texts, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (config.run.mode == RunMode::kInfer || config.run.mode == RunMode::kScore) {
    open_vocabularies(session, before_texts, diagnostics);
    if (!is_predictor(session)) {
      session.train_data = declared_texts(session);
    } else if (config.run.mode == RunMode::kInfer && !diagnostics.has_errors()) {
      session.preparation = preparation_of_weights(config);
    }
    return;
  }
  if (!looks_at_examples(config) && config.data.train) {
    if (!opened([&] { session.train_data = declared_source(config, *config.data.train); }, diagnostics))
      return;
    const bool brings_examples =
        config.run.mode == RunMode::kTrace && first_type(*config.data.train) == "idx";
    if (session.train_data || brings_examples) return;
  }
  open_vocabularies(session, before_texts, diagnostics);
  const bool evaluates = config.run.mode == RunMode::kEvaluate;
  if (evaluates && !diagnostics.has_errors()) session.preparation = preparation_of_weights(config);
  if (!config.data.train || (evaluates && !evaluates_held_out(config))) return;
  if (!evaluates) session.preparation = stored_preparation(config);
  open_train_sources(session, diagnostics);
  check_teacher_classes(session, diagnostics);
  if (evaluates) session.train_data.reset();
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
  const std::optional<DistillOptions>& distill = session.config.distill;
  if (!session.teacher) return;
  const LayoutRules none, layout = distill->layout.value_or(none);
  const std::vector<std::string> unshared;
  Diagnostics of_rules;  // mesh dimensions that split nothing are known from the run's own rules
  check_unused_rules({layout, distill->parameter_layout, none, unshared}, session.layouts.mesh, names, {},
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
    return build_evaluation(*session.model, features, 1, {precision, averaged_weights(session.config)});
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
  collect_errors([&] { session.layouts = make_layouts(session.config); }, diagnostics);
  // The other processes use the caches and vocabularies that the first one makes.
  session.processes->first_then_others("data",
                                       [&] { open_training_data(session, before_texts, diagnostics); });
  if (!has_training_step(session.config.run.mode)) check_layout_rules(session, diagnostics);
  return session;
}

void hold_directory(Session& session) {
  if (session.directory_lock || !session.processes->is_first()) return;
  Diagnostics of_directory;
  holds_run(session.config, of_directory);
  if (!of_directory.has_errors())
    session.directory_lock = std::make_shared<const ModelDirLock>(session.config);
}

std::shared_ptr<const Source> open_source(const Session& session, const SourceChoice& options,
                                          const Mark& mark, Diagnostics& diagnostics) {
  if (!looks_at_examples(session.config) && options->has_tokens()) {
    return declared_source(session.config, options);
  }
  std::shared_ptr<const Source> source;
  opened(
      [&] {
        source = augmented(open_sources(options, context_of(session, TextPurpose::kEvaluation, mark)),
                           augment_settings(session.config, AugmentFor::kEvaluation));
      },
      diagnostics);
  return source;
}

bool has_training_step(RunMode mode) {
  return mode == RunMode::kTrain || mode == RunMode::kExplain || mode == RunMode::kTrace ||
         mode == RunMode::kBench;
}

bool is_predictor(const Session& session) { return session.model && session.model->decoder() == nullptr; }

SourceContext prediction_context(const Session& session, const Mark& mark) {
  SourceContext context = context_of(session, TextPurpose::kEvaluation, mark);
  context.labelled = false;
  return context;
}

AugmentSettings augment_settings(const Config& config, AugmentFor purpose) {
  AugmentSettings settings{.augmentations = config.data.augment,
                           .image = config.data.image.text,
                           .seed = data_seed(config),
                           .purpose = purpose,
                           .threads = thread_count(config),
                           .mark = config.mark("data.augment")};
  std::erase_if(settings.augmentations,
                [](const auto& augmentation) { return augmentation.choice.empty(); });  // reported as unknown
  return settings;
}

bool runs_ahead(const Session& session) {
  return !session.backend->is_host() && !parameter_servers(session.config);
}

namespace {

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

}  // namespace

std::optional<TrainStep> build_step(const Session& session, const TrainStepOptions& options,
                                    Diagnostics& diagnostics) {
  if (!session.model || !session.train_data) return std::nullopt;
  std::optional<TrainStep> step;
  collect_errors(
      [&] {
        step = build_train_step(*session.model, session.train_data->features(), options);
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

std::unique_ptr<Graph> build_evaluation(const Session& session, Diagnostics& diagnostics) {
  std::unique_ptr<Graph> graph;
  if (!session.model || !session.train_data) return graph;
  const int64_t batch_size = evaluate_batch_size(session.config, session.layouts);
  collect_errors(
      [&] {
        graph = build_evaluation(*session.model, session.train_data->features(), batch_size,
                                 evaluation_graph_options(session));
        // Problems of the layout also occur in the training step, and are reported only once.
        if (diagnostics.has_errors()) return;
        Diagnostics of_evaluation;
        check_layouts(*graph, session.layouts, of_evaluation);
        if (of_evaluation.has_errors() && !divides_evaluation_batch(session, diagnostics)) return;
        if (!has_training_step(session.config.run.mode))
          check_pipeline(*graph, session.layouts, of_evaluation);
        for (const Problem& problem : of_evaluation.errors()) diagnostics.add(problem);
      },
      diagnostics);
  return graph;
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
          .costs = session.backend->is_host() ? PipelineCosts{}
                                              : PipelineCosts{.read_byte = 250, .sent_byte = 2000}};
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

VariableStoreOptions variable_store_options(const Session& session, const VariableStore* shared) {
  return {.replicate = session.config.run.check_replicas,
          .shared = shared,
          .communicator = &session.processes->communicator()};
}

}  // namespace mtf
