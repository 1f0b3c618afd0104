// Sources of text, and how their texts become rows of token ids: keys of the section `data`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/sides.h"
#include "engine/config/schema.h"

namespace mtf {

inline config::EnumNames enum_names(Side) { return {{"inputs", Side::kInputs}, {"targets", Side::kTargets}}; }

/// What is one example of a plain text.
enum class TextUnit { kLine, kDocument };
inline config::EnumNames enum_names(TextUnit) {
  return {{"line", TextUnit::kLine}, {"document", TextUnit::kDocument}};
}

/// kTargets: inputs and targets, each with its end of sequence, are one text of targets (text2self).
enum class PairsAs { kPairs, kTargets };
inline config::EnumNames enum_names(PairsAs) {
  return {{"pairs", PairsAs::kPairs}, {"targets", PairsAs::kTargets}};
}

/// Lines of text files.
struct TextOptions {
  static constexpr std::string_view type_name = "text";
  static constexpr bool is_text = true;
  std::vector<config::Path> path;
  Side as = Side::kTargets;
  TextUnit join = TextUnit::kLine;
};

inline void describe(config::Visitor& visit, TextOptions& options) {
  visit("path", options.path, "text files in UTF-8, plain or .gz: a path, a list or a glob",
        config::required);
  visit("as", options.as, "the feature that the texts are");
  visit("join", options.join,
        "what is one example: a line, or a document (lines up to a blank one, joined by newlines)");
}

/// Two files for each other, line by line.
struct ParallelOptions {
  static constexpr std::string_view type_name = "parallel";
  static constexpr bool is_text = true;
  std::vector<config::Path> inputs;
  std::vector<config::Path> targets;
  PairsAs as = PairsAs::kPairs;
};

void describe(config::Visitor& visit, ParallelOptions& options);

/// Lines whose columns are separated by tab characters.
struct TsvOptions {
  static constexpr std::string_view type_name = "tsv";
  static constexpr bool is_text = true;
  std::vector<config::Path> path;
  std::vector<std::string> columns = {"inputs", "targets"};
  PairsAs as = PairsAs::kPairs;
};

void describe(config::Visitor& visit, TsvOptions& options);

/// Lines that are JSON objects.
struct JsonlOptions {
  static constexpr std::string_view type_name = "jsonl";
  static constexpr bool is_text = true;
  std::vector<config::Path> path;
  /// Keys that are called as the features, or feature: key.
  std::variant<std::vector<std::string>, config::Named<std::string>> columns =
      std::vector<std::string>{"inputs", "targets"};
  PairsAs as = PairsAs::kPairs;
};

void describe(config::Visitor& visit, JsonlOptions& options);

/// What a feature of a tf.Example holds.
enum class StoredText { kIds, kText };
inline config::EnumNames enum_names(StoredText) {
  return {{"ids", StoredText::kIds}, {"text", StoredText::kText}};
}

struct TfrecordFeature {
  static constexpr std::string_view shorthand = "kind";
  StoredText kind = StoredText::kIds;
  std::string key;  ///< empty: as our feature
};

inline void describe(config::Visitor& visit, TfrecordFeature& options) {
  visit("kind", options.kind, "ids: a list of integers; text: one string, which is tokenised");
  visit("key", options.key, "its name in the file; by default that of the feature");
}

/// TFRecord files of tf.Example.
struct TfrecordOptions {
  static constexpr std::string_view type_name = "tfrecord";
  static constexpr bool is_text = true;
  std::vector<config::Path> path;
  config::Named<TfrecordFeature> features = {{"inputs", {}}, {"targets", {}}};
  int64_t vocab_shift = 0;
  bool append_eos = false;
  PairsAs as = PairsAs::kPairs;
};

void describe(config::Visitor& visit, TfrecordOptions& options);

using TextSourceOptions =
    std::variant<TextOptions, ParallelOptions, TsvOptions, JsonlOptions, TfrecordOptions>;

/// The sides that stand in the files, and those that are features of the rows: the same but where inputs and
/// targets are joined. Inputs come first.
std::vector<Side> sides_in_files(const TextSourceOptions& options);
std::vector<Side> sides_in_rows(const TextSourceOptions& options);

/// kDense: texts in any order, so that little is left empty. kReference: the packing of Mesh TensorFlow.
/// kNone: one example in each row.
enum class Packing { kDense, kReference, kNone };
inline config::EnumNames enum_names(Packing) {
  return {{"dense", Packing::kDense}, {"reference", Packing::kReference}, {"none", Packing::kNone}};
}

/// kSplit: into consecutive pieces, none of which is lost.
enum class TooLong { kDrop, kCut, kSplit };
inline config::EnumNames enum_names(TooLong) {
  return {{"drop", TooLong::kDrop}, {"cut", TooLong::kCut}, {"split", TooLong::kSplit}};
}

/// Which examples are trained on. Lengths are in tokens, the end of sequence included.
struct LengthFilter {
  std::optional<int64_t> max_length;
  std::optional<double> max_ratio;
  std::optional<TooLong> too_long;
};

inline void describe(config::Visitor& visit, LengthFilter& options) {
  visit("max_length", options.max_length, "longest text; null: sequence_length", config::positive);
  visit("max_ratio", options.max_ratio,
        "pairs in which one text is longer than so many times the other are dropped", config::at_least(1));
  visit("too_long", options.too_long,
        "longer texts are dropped, cut off, or split into several (only without `inputs`); null: pairs are "
        "dropped, other texts split, and with `packing: reference` both cut");
}

/// Tokens of a row: one number, or by feature.
using SequenceLengthOptions = std::variant<int64_t, config::Named<int64_t>>;

/// A side that has no number gets 0.
BySide<int64_t> sequence_lengths(const SequenceLengthOptions& options);

}  // namespace mtf
