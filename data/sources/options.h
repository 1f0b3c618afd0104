// The `data` section of a configuration, and the sources that it and `evaluate.datasets` name.
//
//   SourceContext context{.seed = 1, .mark = mark, .text = text_settings(options, vocabularies)};
//   const std::unique_ptr<Source> source = make_source(*options.train, context);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/source.h"
#include "data/text/text_options.h"
#include "data/text/text_settings.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/config/schema.h"

namespace mtf {

/// IDX files of images and their class labels.
struct IdxOptions {
  static constexpr std::string_view type_name = "idx";
  static constexpr bool type_required = true;
  std::vector<config::Path> images;
  std::vector<config::Path> labels;
};

inline void describe(config::Visitor& visit, IdxOptions& options) {
  visit("images", options.images, "IDX files of images, plain or .gz: a path, a list or a glob",
        config::required);
  visit("labels", options.labels, "IDX files of their labels, one for each file of images", config::required);
}

/// Random inputs that are their own targets.
struct IdentityOptions {
  static constexpr std::string_view type_name = "identity";
  int64_t size = 16;
  int64_t examples = 4096;
  std::string dimension = "io";
};

inline void describe(config::Visitor& visit, IdentityOptions& options) {
  visit("size", options.size, "numbers in each example", config::positive);
  visit("examples", options.examples, "examples of one epoch", config::positive);
  visit("dimension", options.dimension, "name of their dimension");
}

/// A type of source whose reader comes later.
struct LaterSource {
  static constexpr bool later = true;
};
struct VolumesOptions : LaterSource {
  static constexpr std::string_view type_name = "volumes";
};
struct ImagesOptions : LaterSource {
  static constexpr std::string_view type_name = "images";
};
struct NpyOptions : LaterSource {
  static constexpr std::string_view type_name = "npy";
};

using SourceOptions = std::variant<IdxOptions, IdentityOptions, TextOptions, ParallelOptions, TsvOptions,
                                   JsonlOptions, TfrecordOptions, VolumesOptions, ImagesOptions, NpyOptions>;

template <class Options>
concept TextSourceType = requires {
  Options::is_text;
};

/// A source of `evaluate.datasets`: its own keys, and what to measure.
template <class Options>
struct Evaluated : Options {
  std::vector<std::string> metrics;
  std::optional<int64_t> limit;
  std::vector<config::Path> references;  ///< of texts only
};

template <class Options>
void describe(config::Visitor& visit, Evaluated<Options>& options) {
  describe(visit, static_cast<Options&>(options));
  visit("metrics", options.metrics,
        "what is measured; none: all metrics of the model that need no decoding, but neg_log_perplexity, "
        "mean_label, num_eval_tokens and max_targets_length");
  visit("limit", options.limit, "only the first so many examples", config::positive);
  if constexpr (TextSourceType<Options>)
    visit("references", options.references,
          "files of texts, each with a line for every example, that decoded texts are compared with; none: "
          "the targets");
}

/// One of several sources of `data.train`.
template <class Options>
struct Weighted : Options {
  std::optional<double> weight;
};

template <class Options>
void describe(config::Visitor& visit, Weighted<Options>& options) {
  describe(visit, static_cast<Options&>(options));
  visit("weight", options.weight,
        "its share of the rows in training, against 1 of the others; none has one: each example once in an "
        "epoch",
        config::positive);
}

/// std::variant<Wrapper<Options>..., More...>.
template <template <class> class Wrapper, class Variant, class... More>
struct EachOf;
template <template <class> class Wrapper, class... Options, class... More>
struct EachOf<Wrapper, std::variant<Options...>, More...> {
  using type = std::variant<Wrapper<Options>..., More...>;
};
using EvaluationSourceOptions = EachOf<Evaluated, SourceOptions>::type;
using WeightedSourceOptions = EachOf<Weighted, SourceOptions>::type;
/// `data.train`: a source, or several by name.
using NamedSources = config::Named<WeightedSourceOptions>;
using TrainSourceOptions = EachOf<std::type_identity_t, SourceOptions, NamedSources>::type;

/// The source alone, and the keys that all evaluation sources share.
SourceOptions source_of(const EvaluationSourceOptions& options);
const std::vector<std::string>& metrics_of(const EvaluationSourceOptions& options);
std::optional<int64_t> limit_of(const EvaluationSourceOptions& options);
const std::vector<config::Path>& references_of(const EvaluationSourceOptions& options);

/// A source of text as such; nothing when it is of another type.
std::optional<TextSourceOptions> text_source(const SourceOptions& options);
/// All paths that the options name.
std::vector<config::Path*> paths_of(TrainSourceOptions& options);
std::vector<config::Path*> paths_of(EvaluationSourceOptions& options);

/// Section `data`.
struct DataOptions {
  std::optional<TrainSourceOptions> train;
  bool shuffle = true;
  std::optional<int64_t> seed;
  std::optional<SequenceLengthOptions> sequence_length;
  std::optional<VocabularyOptions> vocabulary;
  Packing packing = Packing::kDense;
  LengthFilter filter;
  bool lowercase = false;
  config::Bytes max_line_bytes{TextLimit::default_bytes};
  config::Path cache;

  TextLimit text_limit() const { return {.bytes = max_line_bytes.value}; }
};

void describe(config::Visitor& visit, DataOptions& options);

/// How texts become rows under the options, for training.
TextSettings text_settings(const DataOptions& options, TextVocabularies vocabularies);

/// What sources need beside their own options.
struct SourceContext {
  uint64_t seed = 1;       ///< of synthetic examples
  Mark mark = {};          ///< where the source stands in the configuration
  TextSettings text = {};  ///< for sources of text
};

/// Opens the source. Throws Error (kData): files that are missing at their places in the configuration, what
/// does not fit together at the mark, and wrong files by their paths.
std::unique_ptr<Source> make_source(const SourceOptions& options, const SourceContext& context);
/// The same for one source or several; what is wrong with the files of all is one Error.
std::unique_ptr<Source> make_source(const TrainSourceOptions& options, const SourceContext& context);

/// True where the examples are texts, whose lengths and ids the configuration decides.
bool has_texts(const TrainSourceOptions& options);
/// The features that make_source() would give, without looking at any file; nothing when only the files tell
/// them (IDX). For texts: `sequence_length` and the sizes of the vocabularies decide.
std::optional<std::vector<Feature>> declared_features(const TrainSourceOptions& options,
                                                      const BySide<int64_t>& lengths,
                                                      const BySide<int64_t>& vocabulary_sizes);

/// Calls `use` with each text of the sources of text in `options.train`: what a vocabulary is trained on.
/// Throws Error (kData) with all that is wrong with the files.
void for_each_text(const DataOptions& options, const Mark& mark,
                   const std::function<void(Side, std::string_view)>& use);

}  // namespace mtf
