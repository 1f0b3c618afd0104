#include "trainer/session/open_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "data/class_names.h"
#include "data/sources/array_source.h"
#include "data/sources/held_out.h"
#include "data/text/token_store.h"
#include "data/vocabulary/marian_vocabulary.h"
#include "data/vocabulary/train_vocabulary.h"
#include "engine/base/print_message.h"
#include "trainer/config/strategy.h"
#include "trainer/report/progress.h"
#include "trainer/session/initial_weights.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/stored_model.h"
#include "trainer/session/vocabulary_check.h"

namespace mtf {
namespace {

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

bool looks_at_examples(const Config& config) {
  return config.run.mode != RunMode::kExplain && config.run.mode != RunMode::kTrace;
}

bool takes_trained_weights(const Config& config) {
  return config.run.mode == RunMode::kEvaluate || config.run.mode == RunMode::kInfer;
}

/// The examples of a run that trains tell what it needs to know of its training data; those that are given to trained weights
/// do not, data.train of the same run apart.
bool prepares(const Config& config, bool training) {
  return !takes_trained_weights(config) || (training && !takes_weights_by_path(config));
}

/// What a run keeps of its training data: what they have prepared, or that their labels are numbers.
std::string kept_preparation(const Source& training) {
  std::string prepared = training.preparation();
  const auto labels = std::ranges::find(training.features(), kLabelsFeature, &Feature::name);
  return prepared.empty() && labels != training.features().end() ? std::string(kNumberedClasses) : prepared;
}

SourceContext context_of(const Session& session, TextPurpose purpose, const Mark& mark) {
  SourceContext context{.seed = data_seed(session.config), .mark = mark};
  context.text = text_settings(session.config.data, session.vocabularies);
  context.text.purpose = purpose;
  context.threads = context.text.threads = thread_count(session.config);
  context.cache = session.config.data.cache.text;
  context.training = purpose == TextPurpose::kTraining;
  if (!session.preparation.empty()) context.preparation = session.preparation;
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
        session.preparation = kept_preparation(*session.train_data);
      },
      diagnostics);
}

BySide<int64_t> declared_sizes(const Config& config) {
  const Mark mark = config.mark("data.vocabulary");
  const BySide<LanguageVocabulary> languages = by_side(*config.data.vocabulary);
  return {vocabulary_size(languages.inputs, mark), vocabulary_size(languages.targets, mark)};
}

}  // namespace

void hold_directory(Session& session) {
  if (session.directory_lock || !session.processes->is_first()) return;
  Diagnostics of_directory;
  holds_run(session.config, of_directory);
  if (!of_directory.has_errors())
    session.directory_lock = std::make_shared<const ModelDirLock>(session.config);
}

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

namespace {

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

/// Calls `check` with diagnostics of which the errors count. Its warnings are dropped: make_train_plan() repeats them.
void look_first(const std::function<void(Diagnostics& first)>& check, Diagnostics& diagnostics) {
  Diagnostics first;
  check(first);
  for (const Problem& problem : first.errors()) diagnostics.add(problem);
}

/// True if ids of inputs and targets mean different tokens. Two vocabularies that are to be trained differ: each side has
/// texts of its own.
bool has_two_vocabularies(const Config& config) {
  if (!are_apart(*config.data.vocabulary)) return false;
  const BySide<LanguageVocabulary> languages = by_side(*config.data.vocabulary);
  const Mark mark = config.mark("data.vocabulary");
  return languages.inputs->is_trained() || languages.targets->is_trained() ||
         numbering_of(read_vocabulary(languages.inputs, mark)->fingerprint()) !=
             numbering_of(read_vocabulary(languages.targets, mark)->fingerprint());
}

/// Reports two vocabularies of a model with one embedding. Weights that were trained with them remain usable.
void check_shared_embedding(const Session& session, Diagnostics& diagnostics) {
  const std::string_view option = session.model ? session.model->one_embedding() : "";
  if (option.empty() || !has_two_vocabularies(session.config)) return;
  const Config& config = session.config;
  const Mark mark = config.mark("data.vocabulary");
  const bool begins = has_training_step(config.run.mode) && config.checkpoint.init.path.text.empty();
  if (begins && !has_checkpoints(config)) {
    diagnostics.error(mark, "one embedding cannot serve two vocabularies, whose ids mean different tokens",
                      fmt::format("one vocabulary for both, or `model.{}: false`", option));
    return;
  }
  diagnostics.warning(
      mark, fmt::format("the weights have one embedding for two vocabularies, whose ids mean different "
                        "tokens; a new run with `model.{}: false` has two",
                        option));
}

/// Trains vocabularies that are missing or of other texts, if the run has no errors, and opens the vocabularies.
void open_vocabularies(Session& session, const BeforeTexts& before_texts, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (!config.data.vocabulary || diagnostics.has_errors()) return;
  const bool trains = config.run.mode == RunMode::kTrain || config.run.mode == RunMode::kBench;
  const bool starts_here = trains_here(config) && !has_checkpoints(config);
  check_shared_embedding(session, diagnostics);
  diagnostics.throw_if_errors();
  std::optional<TrainStep> step;
  if (trains && config.data.train) {
    collect_errors([&] { session.train_data = declared_source(config, *config.data.train); }, diagnostics);
    if (session.train_data) {
      const int64_t any = std::numeric_limits<int64_t>::max();
      look_first(
          [&](Diagnostics& first) {
            step = build_step(session, train_step_options(config, session.layouts, any), first);
          },
          diagnostics);
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
    if (step && starts_here) {
      check_vocabulary_to_train(session, *step->graph, texts, diagnostics);
      diagnostics.throw_if_errors();
    }
    train_vocabularies(
        vocabulary, directory, texts, [](const std::string& line) { print_message("{}\n", line); },
        config.mark("data.vocabulary"));
  }
  session.vocabularies =
      read_vocabularies(*config.data.vocabulary, config.run.model_dir.text, config.mark("data.vocabulary"));
  // Texts are not tokenised in vain. Where the step is not known yet, make_train_plan() checks the weights.
  if (step && starts_here) {
    look_first([&](Diagnostics& first) { check_initial_vocabulary(session, *step->graph, first); },
               diagnostics);
    diagnostics.throw_if_errors();
  }
  if (session.teacher && has_other_vocabulary(session, session.teacher->manifest)) {
    diagnostics.error(
        session.teacher->mark,
        fmt::format("the {} {} was trained with another vocabulary, so its ids mean other tokens",
                    session.teacher->name, session.teacher->path),
        fmt::format("`data.vocabulary` with the file of the {}'s run", session.teacher->name));
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
  const std::string& teacher = session.teacher->path;
  const KnownClasses known = kept_classes(preparation_at(teacher));
  if (!known) return;
  std::string difference =
      class_difference({"data.train", session.train_data->class_names()}, {"the teacher " + teacher, *known});
  if (difference.empty()) return;
  diagnostics.error(session.teacher->mark, std::move(difference),
                    "data with the classes of the teacher, in their order");
}

}  // namespace

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

std::shared_ptr<const Source> open_source(const Session& session, const SourceChoice& options,
                                          const std::string& key, Diagnostics& diagnostics) {
  if (!looks_at_examples(session.config) && options->has_tokens()) {
    return declared_source(session.config, options);
  }
  std::shared_ptr<const Source> source;
  opened(
      [&] {
        SourceContext context = context_of(session, TextPurpose::kEvaluation, session.config.mark(key));
        context.text.name = key;
        source = augmented(open_sources(options, context),
                           augment_settings(session.config, AugmentFor::kEvaluation));
      },
      diagnostics);
  return source;
}

SourceContext prediction_context(const Session& session, const Mark& mark) {
  SourceContext context = context_of(session, TextPurpose::kEvaluation, mark);
  context.labelled = false;
  return context;
}

void check_trained_features(const Session& session, const std::string& key) {
  const Config& config = session.config;
  if (!config.data.train || has_texts(*config.data.train) || takes_weights_by_path(config)) return;
  std::shared_ptr<const Source> trained;
  Diagnostics ignored;  // an error of data.train does not hide why the weights cannot be read
  if (!opened([&] { trained = declared_source(config, *config.data.train); }, ignored) || !trained) return;
  for (const Feature& feature : session.train_data->features()) {
    const auto expected = std::ranges::find(trained->features(), feature.name, &Feature::name);
    if (expected == trained->features().end() || *expected == feature) continue;
    throw Error(
        ErrorKind::kConfig, config.mark(key),
        fmt::format("`{}`: `{}` is {} {}, which the weights do not fit", key, feature.name,
                    name_of(feature.dtype), feature.shape.to_string()),
        fmt::format("{} {}, as in data.train", name_of(expected->dtype), expected->shape.to_string()));
  }
}

AugmentSettings augment_settings(const Config& config, AugmentFor purpose) {
  return {.augmentations = config.data.augment,
          .image = config.data.image.text,
          .seed = data_seed(config),
          .purpose = purpose,
          .threads = thread_count(config),
          .mark = config.mark("data.augment")};
}

}  // namespace mtf
