// The `data` section of a configuration, and the sources that it and `evaluate.datasets` name.
//
//   SourceContext context{.seed = 1, .mark = mark, .text = text_settings(options, vocabularies)};
//   const std::unique_ptr<Source> source = open_sources(*options.train, context);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/augment/augmented_source.h"
#include "data/source_options.h"
#include "data/split.h"
#include "data/text/text_options.h"
#include "data/text/text_settings.h"
#include "data/vocabulary/vocabulary_options.h"
#include "engine/config/schema.h"

namespace mtf {

/// A metric that a command computes from files of predictions and references. It must grow as the model gets better.
struct CommandMetric {
  std::string name = "command";
  std::string command;
};
void describe(config::Visitor& visit, CommandMetric& options);

/// What `evaluate.datasets` says of a source beside its own keys.
struct EvaluationKeys {
  std::vector<std::variant<std::string, CommandMetric>> metrics;
  std::optional<int64_t> limit;
  std::vector<config::Path> references;  ///< for texts only
};
void describe(config::Visitor& visit, EvaluationKeys& keys, const SourceOptions& source);
using EvaluationSourceOptions = config::Extended<SourceOptions, EvaluationKeys>;

/// What one of several sources of `data.train` says beside its own keys.
struct MixtureKeys {
  std::optional<double> weight;
};
void describe(config::Visitor& visit, MixtureKeys& keys, const SourceOptions& source);

/// `data.train`: a source, or several by name.
using NamedSources = config::Named<config::Extended<SourceOptions, MixtureKeys>>;
using TrainSourceOptions = std::variant<SourceChoice, NamedSources>;

/// The source as one of texts; nullptr when it is of another type.
inline const TextSourceOptions* text_source(const SourceChoice& source) {
  return source.get_if<TextSourceOptions>();
}
/// All paths that the options name.
std::vector<config::Path*> paths_of(TrainSourceOptions& options);
std::vector<config::Path*> paths_of(EvaluationSourceOptions& options);

/// Section `data`.
struct DataOptions {
  std::optional<TrainSourceOptions> train;
  config::Named<double> split;
  Augmentations augment;
  config::Name image = "image";
  int64_t show = 16;
  bool shuffle = true;
  std::optional<int64_t> seed;
  std::optional<SequenceLengthOptions> sequence_length;
  std::optional<VocabularyChoice> vocabulary;
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

/// Opens one source or several, as SourceOptions::open does; what is wrong with the files of all is one Error.
std::unique_ptr<Source> open_sources(const TrainSourceOptions& options, const SourceContext& context);

/// Opens the sources of training and the parts that `context.split` holds out of them.
SplitSource open_split_sources(const TrainSourceOptions& options, const SourceContext& context);

/// The type of the first source.
std::string_view first_type(const TrainSourceOptions& options);
/// True where the examples are texts, whose lengths and ids the configuration decides.
bool has_texts(const TrainSourceOptions& options);
/// A source of texts and its key: data.train, data.train.NAME or evaluate.datasets.NAME.
struct NamedTexts {
  std::string key;
  const TextSourceOptions& source;
};
/// All sources of texts in `data.train`.
std::vector<NamedTexts> training_texts(const TrainSourceOptions& options);
/// SourceOptions::declared_features of the first source.
std::optional<std::vector<Feature>> declared_features(const TrainSourceOptions& options,
                                                      const BySide<int64_t>& lengths,
                                                      const BySide<int64_t>& vocabulary_sizes);

/// Calls `use` with each text of the sources of text in `options.train`: what a vocabulary is trained on.
/// Throws Error (kData) with all that is wrong with the files.
void for_each_text(const DataOptions& options, const Mark& mark,
                   const std::function<void(Side, std::string_view)>& use);

}  // namespace mtf
