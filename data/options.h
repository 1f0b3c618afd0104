// The `data` section of a configuration, and the sources that it and `evaluate.datasets` name.
//
//   const std::unique_ptr<Source> source = make_source(*options.train, seed, mark);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/source.h"
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
struct TextOptions : LaterSource {
  static constexpr std::string_view type_name = "text";
};
struct ParallelOptions : LaterSource {
  static constexpr std::string_view type_name = "parallel";
};
struct TsvOptions : LaterSource {
  static constexpr std::string_view type_name = "tsv";
};
struct JsonlOptions : LaterSource {
  static constexpr std::string_view type_name = "jsonl";
};
struct TfrecordOptions : LaterSource {
  static constexpr std::string_view type_name = "tfrecord";
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

/// A source of `evaluate.datasets`: its own keys, and what to measure.
template <class Options>
struct Evaluated : Options {
  std::vector<std::string> metrics;
  std::optional<int64_t> limit;
};

template <class Options>
void describe(config::Visitor& visit, Evaluated<Options>& options) {
  describe(visit, static_cast<Options&>(options));
  visit("metrics", options.metrics, "what is measured; none: all metrics of the model that need no decoding");
  visit("limit", options.limit, "only the first so many examples", config::positive);
}

template <class Sources>
struct EvaluatedSources;
template <class... Options>
struct EvaluatedSources<std::variant<Options...>> {
  using type = std::variant<Evaluated<Options>...>;
};
using EvaluationSourceOptions = EvaluatedSources<SourceOptions>::type;

/// The source alone, and the keys that all evaluation sources share.
SourceOptions source_of(const EvaluationSourceOptions& options);
const std::vector<std::string>& metrics_of(const EvaluationSourceOptions& options);
std::optional<int64_t> limit_of(const EvaluationSourceOptions& options);

/// Section `data`.
struct DataOptions {
  std::optional<SourceOptions> train;
  bool shuffle = true;
  std::optional<int64_t> seed;
};

inline void describe(config::Visitor& visit, DataOptions& options) {
  visit("train", options.train, "source of the training examples");
  visit("shuffle", options.shuffle, "a new order for each epoch; false: the order of the files");
  visit("seed", options.seed, "of the order and of synthetic examples; null: run.seed", config::non_negative,
        config::fixed_on_resume);
  visit.later("sequence_length", "tokens of a row, a number or by feature");
  visit.later("vocabulary", "tokens of texts");
  visit.later("packing", "several short texts in one row");
  visit.later("filter", "lengths of texts");
  visit.later("lowercase", "texts in lower case");
  visit.later("cache", "directory of token stores");
  visit.later("augment", "layers that change the training examples");
}

/// Opens the source. Throws Error (kData): files that are missing at their places in the configuration, what
/// does not fit together at `mark`, the place of the source, and wrong files by their paths.
std::unique_ptr<Source> make_source(const SourceOptions& options, uint64_t seed, const Mark& mark = {});

}  // namespace mtf
