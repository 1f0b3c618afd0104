#include "data/sources/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/paths.h"
#include "data/sources/identity.h"
#include "data/sources/idx.h"
#include "data/sources/mixed_source.h"
#include "data/text/text_reader.h"
#include "data/text/text_source.h"
#include "engine/base/check.h"
#include "engine/base/nearest.h"

namespace mtf {
namespace {

std::unique_ptr<Source> make(const IdxOptions& options, const SourceContext& context) {
  std::vector<Problem> missing;
  const std::vector<std::string> images = find_regular_files(options.images, missing);
  const std::vector<std::string> labels = find_regular_files(options.labels, missing);
  if (!missing.empty()) throw Error(std::move(missing));
  if (images.empty() || images.size() != labels.size())
    throw Error(ErrorKind::kData, context.mark,
                fmt::format("{} files of images and {} of labels", images.size(), labels.size()),
                "one file of labels for each file of images");
  return std::make_unique<IdxSource>(images, labels);
}

std::unique_ptr<Source> make(const IdentityOptions& options, const SourceContext& context) {
  return std::make_unique<IdentitySource>(options.examples, Dimension{options.dimension, options.size},
                                          context.seed);
}

template <TextSourceType Options>
std::unique_ptr<Source> make(const Options& options, const SourceContext& context) {
  return make_text_source(options, context.text, context.mark);
}

std::unique_ptr<Source> make(const LaterSource&, const SourceContext&) {
  MTF_CHECK(false, "the schema let a source pass that comes later");
}

template <class Options>
void add_paths(Options& options, std::vector<config::Path*>& paths) {
  const auto add = [&](std::vector<config::Path>& some) {
    for (config::Path& path : some) paths.push_back(&path);
  };
  if constexpr (requires { options.path; }) add(options.path);
  if constexpr (requires { options.images; }) add(options.images);
  if constexpr (requires { options.labels; }) add(options.labels);
  if constexpr (requires { options.inputs; }) add(options.inputs);
  if constexpr (requires { options.targets; }) add(options.targets);
  if constexpr (requires { options.references; }) add(options.references);
}

SourceOptions source_of(const WeightedSourceOptions& options) {
  return std::visit([]<class Options>(const Weighted<Options>& x) { return SourceOptions(Options(x)); },
                    options);
}

/// One source, or several with the weights that they have.
struct Mixture {
  std::vector<std::string> names;  ///< empty: one source without a name
  std::vector<SourceOptions> sources;
  std::vector<std::optional<double>> weights;
};

Mixture mixture_of(const TrainSourceOptions& options) {
  Mixture mixture;
  const auto add = [&]<class Options>(const Options& x) {
    if constexpr (std::is_same_v<Options, NamedSources>) {
      for (const auto& [name, source] : x) {
        mixture.names.push_back(name);
        mixture.sources.push_back(source_of(source));
        mixture.weights.push_back(std::visit([](const auto& weighted) { return weighted.weight; }, source));
      }
    } else {
      mixture.sources = {SourceOptions(x)};
    }
  };
  std::visit(add, options);
  return mixture;
}

/// Weights of 1 where others have one; empty when none has.
std::vector<double> completed(const std::vector<std::optional<double>>& weights) {
  std::vector<double> result;
  if (std::ranges::none_of(weights, &std::optional<double>::has_value)) return result;
  for (const std::optional<double>& weight : weights) result.push_back(weight.value_or(1));
  return result;
}

std::vector<std::string> names_of(const std::vector<Feature>& features) {
  std::vector<std::string> names;
  for (const Feature& feature : features) names.push_back(feature.name);
  return names;
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

/// `text` needs a length for each side of its rows.
void check_lengths(const TextSourceOptions& text, const DataOptions& options, const config::Report& report) {
  const std::vector<Side> sides = sides_in_rows(text);
  const BySide<int64_t> lengths = sequence_lengths(*options.sequence_length);
  for (const Side side : sides) {
    if (lengths[side] == 0)
      report.error("sequence_length",
                   fmt::format("`data.sequence_length` has no number for `{}`", name_of(side)));
  }
  if (options.filter.too_long == TooLong::kSplit && sides.size() > 1)
    report.error("filter", "pairs of texts cannot be split",
                 "`data.filter.too_long` drop or cut, or sources without `inputs`");
}

void check_texts(const DataOptions& options, const config::Report& report) {
  check_sequence_length(options, report);
  if (!options.train) return;
  const Mixture mixture = mixture_of(*options.train);
  if (mixture.sources.empty()) report.error("train", "`data.train` names no source");
  bool texts = false;
  for (const SourceOptions& source : mixture.sources) {
    const std::optional<TextSourceOptions> text = text_source(source);
    if (!text) continue;
    texts = true;
    if (options.sequence_length) check_lengths(*text, options, report);
  }
  if (texts && !options.sequence_length)
    report.error("sequence_length", "`data.sequence_length` is missing", "tokens of a row, such as 256");
  if (texts && !options.vocabulary)
    report.error("vocabulary", "`data.vocabulary` is missing",
                 "for example {type: sentencepiece, size: 8000}, or bytes");
}

}  // namespace

SourceOptions source_of(const EvaluationSourceOptions& options) {
  return std::visit([]<class Options>(const Evaluated<Options>& x) { return SourceOptions(Options(x)); },
                    options);
}

const std::vector<std::string>& metrics_of(const EvaluationSourceOptions& options) {
  return std::visit([](const auto& x) -> const std::vector<std::string>& { return x.metrics; }, options);
}

std::optional<int64_t> limit_of(const EvaluationSourceOptions& options) {
  return std::visit([](const auto& x) { return x.limit; }, options);
}

const std::vector<config::Path>& references_of(const EvaluationSourceOptions& options) {
  return std::visit([](const auto& x) -> const std::vector<config::Path>& { return x.references; }, options);
}

std::optional<TextSourceOptions> text_source(const SourceOptions& options) {
  return std::visit(
      []<class Options>(const Options& x) -> std::optional<TextSourceOptions> {
        if constexpr (TextSourceType<Options>) return x;
        return std::nullopt;
      },
      options);
}

std::vector<config::Path*> paths_of(TrainSourceOptions& options) {
  std::vector<config::Path*> paths;
  if (auto* several = std::get_if<NamedSources>(&options)) {
    for (auto& [name, source] : *several) std::visit([&](auto& x) { add_paths(x, paths); }, source);
  } else {
    std::visit([&](auto& x) { add_paths(x, paths); }, options);
  }
  return paths;
}

std::vector<config::Path*> paths_of(EvaluationSourceOptions& options) {
  std::vector<config::Path*> paths;
  std::visit([&](auto& x) { add_paths(x, paths); }, options);
  return paths;
}

void describe(config::Visitor& visit, DataOptions& options) {
  visit("train", options.train, "source of the training examples, or several: a map from names to sources");
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
  visit.later("augment", "layers that change the training examples");
  visit.check([&options](const config::Report& report) { check_texts(options, report); });
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

std::unique_ptr<Source> make_source(const SourceOptions& options, const SourceContext& context) {
  return std::visit([&](const auto& x) { return make(x, context); }, options);
}

std::unique_ptr<Source> make_source(const TrainSourceOptions& options, const SourceContext& context) {
  const Mixture mixture = mixture_of(options);
  MTF_CHECK(!mixture.sources.empty(), "no source");
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<Problem> problems;
  SourceContext context_of_source = context;
  for (size_t i = 0; i < mixture.sources.size(); ++i) {
    if (!mixture.names.empty()) context_of_source.text.name = mixture.names[i];
    try {
      sources.push_back(make_source(mixture.sources[i], context_of_source));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kConfig) throw;
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (!problems.empty()) throw Error(std::move(problems));
  if (sources.size() == 1) return std::move(sources.front());
  for (const std::unique_ptr<Source>& source : sources) {
    if (source->features() == sources[0]->features()) continue;
    throw Error(ErrorKind::kData, context.mark,
                fmt::format("the sources of `data.train` have different features: {} and {}",
                            fmt::join(names_of(sources[0]->features()), ", "),
                            fmt::join(names_of(source->features()), ", ")),
                "sources with the same features of the same sizes");
  }
  return std::make_unique<MixedSource>(std::move(sources), completed(mixture.weights));
}

bool has_texts(const TrainSourceOptions& options) {
  return text_source(mixture_of(options).sources.front()).has_value();
}

std::optional<std::vector<Feature>> declared_features(const TrainSourceOptions& options,
                                                      const BySide<int64_t>& lengths,
                                                      const BySide<int64_t>& vocabulary_sizes) {
  const SourceOptions source = mixture_of(options).sources.front();
  if (const std::optional<TextSourceOptions> text = text_source(source))
    return text_features(*text, lengths, vocabulary_sizes);
  if (const auto* identity = std::get_if<IdentityOptions>(&source)) return make(*identity, {})->features();
  return std::nullopt;
}

void for_each_text(const DataOptions& options, const Mark& mark,
                   const std::function<void(Side, std::string_view)>& use) {
  std::vector<Problem> problems;
  std::vector<TextFiles> files;
  for (const SourceOptions& source : mixture_of(*options.train).sources) {
    if (const auto text = text_source(source))
      files.push_back(find_text_files(*text, mark, problems, options.text_limit()));
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
