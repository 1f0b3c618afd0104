#include "trainer/session/evaluation_sets.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/class_names.h"
#include "data/labelled/conll.h"
#include "data/labelled/squad.h"
#include "data/sources/held_out.h"
#include "engine/base/nearest.h"
#include "models/text_decoder.h"
#include "trainer/session/example_images.h"
#include "trainer/session/open_data.h"
#include "trainer/session/weight_conversions.h"

namespace mtf {
namespace {

/// Reports unknown metrics. `written`: the model can generate texts for the data set.
void check_metrics(const EvaluationSet& set, const Model& model, bool written, const Mark& mark,
                   Diagnostics& diagnostics) {
  std::vector<std::string> known = model.metrics();
  if (written) std::ranges::copy(text_metric_names(), std::back_inserter(known));
  for (const std::string& metric : set.metrics) {
    if (std::find(known.begin(), known.end(), metric) != known.end()) continue;
    diagnostics.error(
        mark, fmt::format("`evaluate.datasets.{}.metrics`: the model has no metric `{}`", set.name, metric),
        did_you_mean(metric, known));
  }
}

/// True if metric can be computed from the examples of the source: entities need tagged words, answers questions, and what is
/// said of pairs of texts their labels.
bool can_be_measured(std::string_view metric, const Source& source) {
  if (metric.starts_with("next_sentence_"))
    return std::ranges::find(source.features(), "next_sentence", &Feature::name) != source.features().end();
  if (dynamic_cast<const DeclaredSource*>(&source)) return true;
  if (metric.starts_with("entity_")) return dynamic_cast<const ConllSource*>(&source) != nullptr;
  const bool of_answers = metric == "exact_match" || metric == "answer_f1";
  return !of_answers || dynamic_cast<const SquadSource*>(&source) != nullptr;
}

/// Leaves out metrics that the source does not allow; those that the configuration names are reported.
void keep_measurable(EvaluationSet& set, const Mark& mark, Diagnostics& diagnostics) {
  std::erase_if(set.metrics, [&](const std::string& metric) {
    if (can_be_measured(metric, *set.source)) return false;
    if (set.has_chosen_metrics)
      diagnostics.error(mark,
                        fmt::format("`evaluate.datasets.{}.metrics`: `{}` cannot be measured on this source",
                                    set.name, metric),
                        metric.starts_with("entity_") ? "a source of type conll"
                        : metric.starts_with("next_") ? "an objective masked_lm with `pairs`"
                                                      : "a source of type squad");
    return true;
  });
}

/// Reports features that the model needs and the data set lacks; true if there are any.
bool lacks_features(const EvaluationSet& set, const Model& model, const Mark& mark,
                    Diagnostics& diagnostics) {
  std::vector<std::string> lacking = model.features();
  std::erase_if(lacking, [&](const std::string& name) {
    const std::vector<Feature>& features = set.source->features();
    return std::ranges::find(features, name, &Feature::name) != features.end();
  });
  if (!lacking.empty())
    diagnostics.error(
        mark, fmt::format("`evaluate.datasets.{}` has no feature `{}`", set.name, fmt::join(lacking, "`, `")),
        fmt::format("a source with `{}`", fmt::join(model.features(), "`, `")));
  return !lacking.empty();
}

/// The source whose features all data sets must have, and its name.
struct ExpectedExamples {
  const Source& source;
  std::string name;  ///< name in messages: "data.train"
};

/// Reports features of the model whose dtypes, shapes or vocabularies differ.
void check_features(const EvaluationSet& set, const ExpectedExamples& examples, const Model& model,
                    const Mark& mark, bool augments, Diagnostics& diagnostics) {
  const std::vector<Feature>&here = set.source->features(), &there = examples.source.features();
  for (const std::string& name : model.features()) {
    const auto expected = std::ranges::find(there, name, &Feature::name);
    const auto found = std::ranges::find(here, name, &Feature::name);
    if (expected == there.end()) continue;
    if (found == here.end()) {
      diagnostics.error(mark, fmt::format("`evaluate.datasets.{}` has no feature `{}`", set.name, name));
    } else if (*found != *expected) {
      diagnostics.error(
          mark,
          fmt::format("`evaluate.datasets.{}`: `{}` is {} {}, and in {} {} {}", set.name, name,
                      name_of(found->dtype), found->shape.to_string(), examples.name,
                      name_of(expected->dtype), expected->shape.to_string()),
          augments ? "`center_crop` and `resize` in `data.augment` apply to evaluation, too" : "");
    }
  }
}

/// Reports names of classes that belong to other numbers in the training data, where their classes are known. Sources that
/// have the names from their files number them as the training data do; others may bring names of their own.
void check_classes(const EvaluationSet& set, const Session& session, const Mark& mark,
                   Diagnostics& diagnostics) {
  const KnownClasses known = kept_classes(session.preparation);
  if (!known) return;
  const NamedClasses own{fmt::format("`evaluate.datasets.{}`", set.name), set.source->class_names()};
  const NamedClasses trained{"the training data", *known};
  if (number_differently(own, trained))
    diagnostics.error(mark, class_difference(own, trained),
                      "`class_names`, `classes` or classes.txt in the order of the training data");
}

EvaluationTexts read_texts(const TextSourceOptions& source, const EvaluationSet& set,
                           const std::vector<config::Path>& references, const Session& session,
                           const Mark& mark) {
  EvaluationTexts texts =
      read_evaluation_texts(source, references, session.vocabularies, mark, session.config.data.text_limit());
  const size_t most = set.limit ? static_cast<size_t>(*set.limit) : texts.inputs.size();
  if (most < texts.inputs.size()) {
    texts.inputs.resize(most);
    for (auto& reference : texts.references) reference.resize(most);
  }
  return texts;
}

/// True if the model can generate texts for the data set, and metrics of texts apply.
bool writes_texts(const Session& session, const EvaluationSourceOptions& dataset) {
  const TextDecoder* decoder = session.model->decoder();
  const TextSourceOptions* texts = text_source(dataset.choice);
  return texts != nullptr && !texts->objective && decoder != nullptr && decoder->has_encoder();
}

/// Opens the source of a data set, or takes what is held out of data.train.
std::shared_ptr<const Source> source_of(const Session& session, const std::string& name,
                                        const SourceChoice& choice, Diagnostics& diagnostics) {
  if (choice.type() != kHeldOut)
    return open_source(session, choice, "evaluate.datasets." + name, diagnostics);
  const auto part = session.held_out.find(name);
  if (part != session.held_out.end()) return part->second;
  // Modes that read no examples know the features alone.
  if (!session.train_data) return nullptr;
  return std::make_shared<DeclaredSource>(session.train_data->features());
}

/// Returns the model's metrics that are measured by default.
std::vector<std::string> default_metrics(const Model& model) {
  std::vector<std::string> names = model.metrics();
  std::erase_if(names, [](const std::string& name) { return !measured_by_default(name); });
  return names;
}

}  // namespace

std::vector<std::string> text_metric_names() { return {"bleu", "chrf", "chrf++", "ter"}; }

bool is_text_metric(std::string_view name) {
  const std::vector<std::string> names = text_metric_names();
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> EvaluationSet::metrics_of(bool texts) const {
  std::vector<std::string> names;
  std::ranges::copy_if(metrics, std::back_inserter(names),
                       [&](const std::string& name) { return is_text_metric(name) == texts; });
  return names;
}

namespace {

EvaluationSet declared_set(const std::string& name, const EvaluationSourceOptions& dataset) {
  EvaluationSet set{name, nullptr, {}, dataset.extra.limit};
  for (const auto& metric : dataset.extra.metrics) {
    if (const auto* const known = std::get_if<std::string>(&metric))
      set.metrics.push_back(*known);
    else
      set.commands.push_back(std::get<CommandMetric>(metric));
  }
  set.has_chosen_metrics = !set.metrics.empty();
  return set;
}

/// Reports commands whose names are taken, or that cannot get predictions.
void check_commands(const EvaluationSet& set, const Session& session, bool written, const Mark& mark,
                    Diagnostics& diagnostics) {
  std::vector<std::string> taken = session.model->metrics();
  std::ranges::copy(text_metric_names(), std::back_inserter(taken));
  for (const CommandMetric& metric : set.commands) {
    if (std::ranges::find(taken, metric.name) != taken.end())
      diagnostics.error(mark,
                        fmt::format("`evaluate.datasets.{}.metrics`: the name `{}` of a command is taken",
                                    set.name, metric.name),
                        "a name of its own");
    taken.push_back(metric.name);
  }
  if (!set.commands.empty() && session.model->decoder() != nullptr && !written)
    diagnostics.error(
        mark,
        fmt::format("`evaluate.datasets.{}.metrics`: the model writes no texts for a command", set.name),
        "a model and a source with inputs and targets");
}

}  // namespace

std::vector<EvaluationSet> declared_evaluation_sets(const Session& session, Diagnostics& diagnostics) {
  std::vector<EvaluationSet> sets;
  const Config& config = session.config;
  for (const auto& [name, dataset] : config.evaluate.datasets) {
    EvaluationSet set = declared_set(name, dataset);
    if (session.model) {
      if (set.metrics.empty()) set.metrics = default_metrics(*session.model);
      check_metrics(set, *session.model, writes_texts(session, dataset),
                    config.mark("evaluate.datasets." + name + ".metrics"), diagnostics);
      check_commands(set, session, writes_texts(session, dataset),
                     config.mark("evaluate.datasets." + name + ".metrics"), diagnostics);
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

bool shows_misclassified(const Session& session) {
  const Config& config = session.config;
  const bool keeps_files = config.run.mode != RunMode::kEvaluate || !config.evaluate.output.empty();
  return keeps_files && config.evaluate.misclassified > 0 && !config.evaluate.datasets.empty() &&
         image_feature(config, session.train_data->features());
}

EvaluationGraphOptions evaluation_graph_options(const Session& session) {
  const Config& config = session.config;
  EvaluationGraphOptions options{precision_of(config), averaged_weights(config)};
  options.keep_predictions = shows_misclassified(session);
  options.expert_parts = expert_parts(session.layouts);
  options.loss_chunks = config.train.loss_chunks;
  options.copies = weight_copy_options(session, session.layouts);
  Diagnostics reported;  // what is wrong with the metrics is reported where the sets are opened
  for (const EvaluationSet& set : declared_evaluation_sets(session, reported)) {
    for (const std::string& metric : set.metrics_of(false)) {
      options.requested.emplace(metric, config.mark("evaluate.datasets." + set.name + ".metrics"));
      if (is_class_metric(metric) || is_prediction_metric(metric)) options.keep_predictions = true;
    }
    if (!set.commands.empty()) options.keep_predictions = true;
  }
  return options;
}

std::vector<EvaluationSet> open_evaluation_sets(const Session& session, Diagnostics& diagnostics) {
  std::vector<EvaluationSet> opened;
  const Config& config = session.config;
  for (EvaluationSet& set : declared_evaluation_sets(session, diagnostics)) {
    const Mark mark = config.mark("evaluate.datasets." + set.name);
    const EvaluationSourceOptions& dataset = *config.evaluate.datasets.find(set.name);
    set.source = source_of(session, set.name, dataset.choice, diagnostics);
    if (!session.model || !set.source) continue;
    keep_measurable(set, config.mark("evaluate.datasets." + set.name + ".metrics"), diagnostics);
    if (!session.train_data && config.run.mode != RunMode::kEvaluate) continue;
    if (!session.train_data && lacks_features(set, *session.model, mark, diagnostics)) continue;
    if (writes_texts(session, dataset) && session.vocabularies.targets &&
        (!set.metrics_of(true).empty() || !set.commands.empty())) {
      set.texts = read_texts(*text_source(dataset.choice), set, dataset.extra.references, session, mark);
    }
    const EvaluationSet& first = opened.empty() ? set : opened.front();
    const ExpectedExamples expected =
        session.train_data ? ExpectedExamples{*session.train_data, "data.train"}
                           : ExpectedExamples{*first.source, "evaluate.datasets." + first.name};
    check_features(set, expected, *session.model, mark, !config.data.augment.empty(), diagnostics);
    check_classes(set, session, mark, diagnostics);
    if (session.model->is_aligned()) set.source->check_aligned(mark);
    opened.push_back(std::move(set));
  }
  return opened;
}

}  // namespace mtf
