#include "data/sources/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/class_names.h"
#include "data/mixed_source.h"
#include "data/text/text_reader.h"
#include "data/text/text_sampling.h"
#include "data/text/text_source.h"
#include "engine/base/check.h"
#include "engine/base/nearest.h"

namespace mtf {
namespace {

/// One source, or several with the weights that they have. It refers to the options that it is made of.
struct Mixture {
  std::vector<std::string> names;  ///< empty: one source without a name
  std::vector<const SourceChoice*> sources;
  std::vector<std::optional<double>> weights;
};

Mixture mixture_of(const TrainSourceOptions& options) {
  Mixture mixture;
  if (const auto* one = std::get_if<SourceChoice>(&options)) {
    mixture.sources = {one};
  } else {
    for (const auto& [name, source] : std::get<NamedSources>(options)) {
      mixture.names.push_back(name);
      mixture.sources.push_back(&source.choice);
      mixture.weights.push_back(source.extra.weight);
    }
  }
  return mixture;
}

/// Weights of 1 where others have one; empty when none has.
std::vector<double> completed(const std::vector<std::optional<double>>& weights) {
  std::vector<double> result;
  if (std::ranges::none_of(weights, &std::optional<double>::has_value)) return result;
  for (const std::optional<double>& weight : weights) result.push_back(weight.value_or(1));
  return result;
}

/// "x float32 [inputs=4], labels int32 []"
std::string text_of(const std::vector<Feature>& features) {
  std::vector<std::string> texts;
  for (const Feature& feature : features) {
    const std::string ids = feature.vocabulary > 0 ? fmt::format(" of {} ids", feature.vocabulary) : "";
    texts.push_back(
        fmt::format("{} {} {}{}", feature.name, name_of(feature.dtype), feature.shape.to_string(), ids));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

void check_sequence_length(const DataOptions& options, const config::Report& report) {
  const auto* by_side =
      options.sequence_length ? std::get_if<config::Named<int64_t>>(&*options.sequence_length) : nullptr;
  if (!by_side) return;
  for (const auto& [name, length] : *by_side) {
    if (name != name_of(Side::kInputs) && name != name_of(Side::kTargets))
      report.error("sequence_length", fmt::format("there is no feature `{}` of texts", name),
                   did_you_mean(name, {"inputs", "targets"}));
  }
}

/// An objective makes rows of its own; some lengths follow from others.
void check_row(const ObjectiveOptions& objective, const BySide<int64_t>& lengths,
               const config::Report& report) {
  try {
    objective.row(lengths);
  } catch (const Error& error) {
    const Problem& problem = error.problems().front();
    report.error("sequence_length", problem.message, problem.hint);
  }
}

/// `text` needs a length for each side of its rows.
void check_lengths(const TextSourceOptions& text, const DataOptions& options, const config::Report& report) {
  const std::vector<Side> sides = sides_in_rows(text);
  const BySide<int64_t> lengths = sequence_lengths(*options.sequence_length);
  if (text.objective) {
    check_row(**text.objective, lengths, report);
  } else {
    for (const Side side : sides) {
      if (lengths[side] == 0)
        report.error("sequence_length",
                     fmt::format("`data.sequence_length` has no number for `{}`", name_of(side)));
    }
  }
  if (options.filter.too_long == TooLong::kSplit && sides.size() > 1)
    report.error("filter", "pairs of texts cannot be split",
                 "`data.filter.too_long` drop or cut, or sources without `inputs`");
}

/// How the vocabulary that the options describe finds its pieces, where no file needs to be read to know it.
struct DeclaredKind {
  bool is_known = false;
  std::optional<SegmentationKind> kind = {};
};
DeclaredKind declared_kind(const LanguageVocabulary& options) {
  if (const auto* const pieces = options.get_if<SentencePieceOptions>()) {
    if (!pieces->is_trained()) return {};
    return {true, pieces->model == SentencePieceModel::kUnigram ? SegmentationKind::kUnigram
                                                                : SegmentationKind::kMerges};
  }
  if (options.get_if<MarianOptions>() != nullptr || options.get_if<HuggingFaceOptions>() != nullptr)
    return {};
  return {true, std::nullopt};
}

/// What `sampling` asks for must suit the vocabulary, as far as it is known.
void check_sampling(const TextSourceOptions& text, const DataOptions& options, const config::Report& report) {
  if (!text.sampling || !options.vocabulary) return;
  const std::vector<Side> sides = sides_in_rows(text);
  const BySide<std::optional<SubwordSampling>> sampling = sampling_of(*text.sampling, sides);
  const BySide<LanguageVocabulary> vocabularies = by_side(*options.vocabulary);
  for (const Side side : sides) {
    if (!sampling[side] || vocabularies[side].empty()) continue;
    const DeclaredKind declared = declared_kind(vocabularies[side]);
    if (!declared.is_known || declared.kind == sampling[side]->kind) continue;
    const SamplingRefusal refusal = refusal_of(side, sampling[side]->kind, declared.kind);
    report.error("train", refusal.message, refusal.hint);
    return;
  }
}

/// Shares are above 0, and some examples are left for training.
void check_split(const config::Named<double>& split, const config::Report& report) {
  double sum = 0;
  for (const auto& [name, share] : split) {
    sum += share;
    if (!(share > 0 && share < 1))
      report.error("split." + name, fmt::format("`data.split.{}` is {}", name, share),
                   "a part: above 0 and below 1");
  }
  if (sum >= 1)
    report.error("split", fmt::format("the shares of `data.split` add up to {}", sum),
                 "less than 1: the rest is for training");
}

void check_texts(const DataOptions& options, const config::Report& report) {
  check_sequence_length(options, report);
  if (!options.train) return;
  const Mixture mixture = mixture_of(*options.train);
  if (mixture.sources.empty()) report.error("train", "`data.train` names no source");
  bool texts = false, can_be_split = true;
  for (const SourceChoice* source : mixture.sources) {
    if (source->empty()) continue;
    texts = texts || (*source)->has_tokens();
    can_be_split = can_be_split && (*source)->can_be_split();
    const TextSourceOptions* const text = text_source(*source);
    if (text != nullptr && options.sequence_length) check_lengths(*text, options, report);
    if (text != nullptr) check_sampling(*text, options, report);
  }
  if (!can_be_split && !options.split.empty())
    report.error("split", "`data.split` divides tables, labelled texts and images, not other texts",
                 "files of their own for each of `evaluate.datasets`");
  if (texts && !options.sequence_length)
    report.error("sequence_length", "`data.sequence_length` is missing", "tokens of a row, such as 256");
  if (texts && !options.vocabulary)
    report.error("vocabulary", "`data.vocabulary` is missing",
                 "for example {type: sentencepiece, size: 8000}, or bytes");
}

}  // namespace

void describe(config::Visitor& visit, CommandMetric& options) {
  visit("name", options.name, "its name in logs, in `train.patience` and in `checkpoint.keep_best`");
  visit(
      "command", options.command,
      "a command for the shell, which prints a number that grows as the model gets better; {predictions} and "
      "{references} in it become files with a line for each example",
      config::required);
}

void describe(config::Visitor& visit, EvaluationKeys& keys, const SourceOptions& source) {
  visit("metrics", keys.metrics,
        "what is measured: names of metrics, and commands as {name: rouge, command: \"rouge.py {predictions} "
        "{references}\"}; none: all metrics of the model that need no decoding, but top_5_accuracy, "
        "precision, recall, f1, f1_micro, f1_binary, mean_iou, matthews, confusion_matrix, pearson, "
        "spearman, neg_log_perplexity, mean_label, num_eval_tokens and max_targets_length");
  visit("limit", keys.limit, "only the first so many examples", config::positive);
  if (dynamic_cast<const TextSourceOptions*>(&source))
    visit("references", keys.references,
          "files of texts, each with a line for every example, that decoded texts are compared with; none: "
          "the targets");
}

void describe(config::Visitor& visit, MixtureKeys& keys, const SourceOptions&) {
  visit("weight", keys.weight,
        "its share of the rows in training, against 1 of the others; none has one: each example once in an "
        "epoch",
        config::positive);
}

std::vector<config::Path*> paths_of(TrainSourceOptions& options) {
  if (auto* one = std::get_if<SourceChoice>(&options))
    return one->empty() ? std::vector<config::Path*>() : (*one)->paths();
  std::vector<config::Path*> paths;
  for (auto& [name, source] : std::get<NamedSources>(options)) {
    const std::vector<config::Path*> more = source.choice->paths();
    paths.insert(paths.end(), more.begin(), more.end());
  }
  return paths;
}

std::vector<config::Path*> paths_of(EvaluationSourceOptions& options) {
  if (options.choice.empty()) return {};
  std::vector<config::Path*> paths = options.choice->paths();
  for (config::Path& path : options.extra.references) paths.push_back(&path);
  return paths;
}

void describe(config::Visitor& visit, DataOptions& options) {
  visit("train", options.train, "source of the training examples, or several: a map from names to sources");
  visit("split", options.split,
        "parts of data.train that are held out and evaluated, by name: {dev: 0.1}; a hash of its content or "
        "file "
        "decides where an example belongs",
        config::fixed_on_resume);
  visit("augment", options.augment,
        "changes of the images, in this order; evaluation applies center_crop, resize and normalize alone");
  visit("image", options.image, "the feature that `augment` changes and run.mode=show draws");
  visit("show", options.show, "examples that run.mode=show draws", config::Bounds{0.0, 10000.0, true},
        config::free_on_resume);
  visit("shuffle", options.shuffle, "a new order for each epoch; false: the order of the files");
  visit("seed", options.seed, "of the order and of synthetic examples; null: run.seed", config::non_negative,
        config::fixed_on_resume);
  visit("sequence_length", options.sequence_length,
        "tokens of a row of text, a number or by feature: {inputs: 64, targets: 80}", config::positive,
        config::fixed_on_resume);
  visit("vocabulary", options.vocabulary,
        "how texts become tokens; without `path` sentencepiece is trained on data.train",
        config::fixed_on_resume);
  visit("packing", options.packing,
        "several short texts in one row: dense, reference (as Mesh TensorFlow packs), or none");
  visit("filter", options.filter, "lengths of the texts that are trained on");
  visit("lowercase", options.lowercase, "texts in lower case");
  visit("max_line_bytes", options.max_line_bytes,
        "longest text: bytes of a line (also of files that infer and score read), of a document or of a "
        "record; "
        "a number, or 64MiB; a longer one is an error",
        config::free_on_resume);
  visit("cache", options.cache,
        "directory in which tokenised texts are kept; by default $XDG_CACHE_HOME/mtf-train or "
        "~/.cache/mtf-train; a run that adds to it removes what no run has used for 30 days",
        config::free_on_resume);
  visit.check([&options](const config::Report& report) {
    check_split(options.split, report);
    check_texts(options, report);
  });
}

TextSettings text_settings(const DataOptions& options, TextVocabularies vocabularies) {
  TextSettings settings;
  settings.vocabularies = std::move(vocabularies);
  if (options.sequence_length) settings.lengths = sequence_lengths(*options.sequence_length);
  settings.packing = options.packing;
  settings.filter = options.filter;
  settings.lowercase = options.lowercase;
  settings.cache = options.cache.text;
  settings.limit = options.text_limit();
  return settings;
}

std::unique_ptr<Source> open_sources(const TrainSourceOptions& options, const SourceContext& context) {
  SourceContext whole = context;
  whole.split = {};
  return open_split_sources(options, whole).train;
}

SplitSource open_split_sources(const TrainSourceOptions& options, const SourceContext& context) {
  const Mixture mixture = mixture_of(options);
  MTF_CHECK(!mixture.sources.empty(), "no source");
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<Problem> problems;
  SourceContext context_of_source = context;
  for (size_t i = 0; i < mixture.sources.size(); ++i) {
    if (!mixture.names.empty()) context_of_source.text.name = mixture.names[i];
    try {
      sources.push_back((*mixture.sources[i])->open(context_of_source));
      // Names of classes, means and deviations are those of the first source.
      if (i == 0 && !context.preparation) context_of_source.preparation = sources[0]->preparation();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kConfig) throw;
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  for (const std::unique_ptr<Source>& source : sources) {
    if (source->features() == sources[0]->features()) continue;
    throw Error(ErrorKind::kData, context.mark,
                fmt::format("the sources of `data.train` have different features: {} and {}",
                            text_of(sources[0]->features()), text_of(source->features())),
                "sources with the same features of the same sizes");
  }
  for (size_t i = 1; i < sources.size(); ++i) {
    const NamedClasses own{fmt::format("`data.train.{}`", mixture.names[i]), sources[i]->class_names()},
        first{fmt::format("`data.train.{}`", mixture.names[0]), sources[0]->class_names()};
    if (number_differently(own, first))
      throw Error(ErrorKind::kConfig, context.mark, class_difference(own, first),
                  "one order of the classes in all sources");
  }
  if (sources.size() == 1) return split_source(std::move(sources.front()), context.split, context.mark);
  std::vector<std::unique_ptr<Source>> train;
  std::vector<std::vector<std::unique_ptr<Source>>> parts(context.split.names().size());
  for (std::unique_ptr<Source>& source : sources) {
    SplitSource divided = split_source(std::move(source), context.split, context.mark);
    train.push_back(std::move(divided.train));
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(std::move(divided.parts[i]));
  }
  SplitSource result;
  result.train = std::make_unique<MixedSource>(std::move(train), completed(mixture.weights));
  for (std::vector<std::unique_ptr<Source>>& part : parts)
    result.parts.push_back(std::make_unique<MixedSource>(std::move(part), std::vector<double>()));
  return result;
}

std::string_view first_type(const TrainSourceOptions& options) {
  return mixture_of(options).sources.front()->type();
}

bool has_texts(const TrainSourceOptions& options) {
  return text_source(*mixture_of(options).sources.front()) != nullptr;
}

std::vector<NamedTexts> training_texts(const TrainSourceOptions& options) {
  const Mixture mixture = mixture_of(options);
  std::vector<NamedTexts> texts;
  for (size_t i = 0; i < mixture.sources.size(); ++i) {
    if (mixture.sources[i]->empty()) continue;
    if (const TextSourceOptions* const source = text_source(*mixture.sources[i]))
      texts.push_back({mixture.names.empty() ? "data.train" : "data.train." + mixture.names[i], *source});
  }
  return texts;
}

std::optional<std::vector<Feature>> declared_features(const TrainSourceOptions& options,
                                                      const BySide<int64_t>& lengths,
                                                      const BySide<int64_t>& vocabulary_sizes) {
  return (*mixture_of(options).sources.front())->declared_features(lengths, vocabulary_sizes);
}

void for_each_text(const DataOptions& options, const Mark& mark,
                   const std::function<void(Side, std::string_view)>& use) {
  std::vector<Problem> problems;
  std::vector<TextFiles> files;
  for (const SourceChoice* source : mixture_of(*options.train).sources) {
    if (const TextSourceOptions* const text = text_source(*source)) {
      files.push_back(find_text_files(*text, mark, problems, options.text_limit()));
    } else {
      (*source)->for_each_text(mark, use);
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  for (const TextFiles& some : files) {
    try {
      for_each_text(some, use);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

}  // namespace mtf
