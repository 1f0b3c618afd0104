// Options of the section `data` for sources of text and for making rows of token ids from their texts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/sides.h"
#include "data/source_options.h"
#include "data/text/objective_options.h"
#include "data/text/text_sampling.h"

namespace mtf {

inline config::EnumNames enum_names(Side) { return {{"inputs", Side::kInputs}, {"targets", Side::kTargets}}; }

/// The unit of a plain text that is one example.
enum class TextUnit { kLine, kDocument };
inline config::EnumNames enum_names(TextUnit) {
  return {{"line", TextUnit::kLine}, {"document", TextUnit::kDocument}};
}

/// How a pair of texts is fed to the model. kTargets joins inputs and targets, each with its end-of-sequence
/// token, to one text of targets (text2self).
enum class PairsAs { kPairs, kTargets };
inline config::EnumNames enum_names(PairsAs) {
  return {{"pairs", PairsAs::kPairs}, {"targets", PairsAs::kTargets}};
}

class TextFormat;
struct FormatContext;

/// A source of texts.
struct TextSourceOptions : SourceOptions {
  std::optional<ObjectiveChoice> objective;
  std::optional<SamplingOptions> sampling;

  /// Returns the sides that the files contain; inputs come first.
  virtual std::vector<Side> sides() const = 0;
  /// True if both texts of a pair are joined into one text of `targets`.
  virtual bool joins_pairs() const { return false; }
  /// True if each text of `targets` has parts, of which the last answers those before it.
  virtual bool has_answers() const { return false; }
  /// True if the files hold token ids of this side, of which any may be an end of sequence.
  virtual bool has_ids(Side /*side*/) const { return false; }
  /// True if each pair comes with the alignment of its words.
  virtual bool has_alignments() const { return false; }
  /// Returns groups of files that are read side by side: {path}, or {inputs, targets}. Paths without a regular
  /// file, and lists that do not fit together (at `mark`), are added to `problems`.
  virtual std::vector<std::vector<std::string>> file_groups(const Mark& mark,
                                                            std::vector<Problem>& problems) const = 0;
  /// Opens the files of a group. Throws Error when a file cannot be opened.
  virtual std::unique_ptr<TextFormat> open_format(const FormatContext& context) const = 0;
  /// Returns these options as a value.
  virtual SourceChoice choice() const = 0;

  std::unique_ptr<Source> open(const SourceContext& context) const override;
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>& lengths,
                                                        const BySide<int64_t>& sizes) const override;
  bool has_tokens() const override { return true; }
  bool can_be_split() const override { return false; }
  /// True if each two texts of `targets` that follow each other are the chosen and the rejected answer to one prompt.
  virtual bool has_preferences() const { return false; }
};

/// The keys `objective` and `sampling`.
void describe_objective(config::Visitor& visit, TextSourceOptions& options);
/// The key `sampling` alone.
void describe_sampling(config::Visitor& visit, TextSourceOptions& options);

/// A source of texts whose files are read one at a time.
struct FilesOfTexts : TextSourceOptions {
  std::vector<config::Path> path;
  std::vector<config::Path*> paths() override { return pointers_to({&path}); }
  std::vector<std::vector<std::string>> file_groups(const Mark& mark,
                                                    std::vector<Problem>& problems) const override;
};

/// A source that reads lines of text files.
struct TextOptions final : FilesOfTexts {
  static constexpr std::string_view type_name = "text";
  Side as = Side::kTargets;
  TextUnit join = TextUnit::kLine;

  std::vector<Side> sides() const override;
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

inline void describe(config::Visitor& visit, TextOptions& options) {
  visit("path", options.path, "text files in UTF-8, plain or .gz: a path, a list or a glob",
        config::required);
  visit("as", options.as, "the feature that the texts are");
  visit("join", options.join,
        "what is one example: a line, or a document (lines up to a blank one, joined by newlines)");
  describe_objective(visit, options);
}

/// A source that reads pairs of files whose lines correspond.
struct ParallelOptions final : TextSourceOptions {
  static constexpr std::string_view type_name = "parallel";
  std::vector<config::Path> inputs;
  std::vector<config::Path> targets;
  PairsAs as = PairsAs::kPairs;
  std::vector<config::Path> alignments;

  std::vector<Side> sides() const override;
  bool joins_pairs() const override { return as == PairsAs::kTargets; }
  bool has_alignments() const override { return !alignments.empty(); }
  std::vector<config::Path*> paths() override { return pointers_to({&inputs, &targets, &alignments}); }
  std::vector<std::vector<std::string>> file_groups(const Mark& mark,
                                                    std::vector<Problem>& problems) const override;
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

void describe(config::Visitor& visit, ParallelOptions& options);

/// A source that reads lines whose columns are separated by tab characters.
struct TsvOptions final : FilesOfTexts {
  static constexpr std::string_view type_name = "tsv";
  std::vector<std::string> columns = {"inputs", "targets"};
  PairsAs as = PairsAs::kPairs;

  std::vector<Side> sides() const override;
  bool joins_pairs() const override { return as == PairsAs::kTargets; }
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

void describe(config::Visitor& visit, TsvOptions& options);

/// A source that reads lines that are JSON objects.
struct JsonlOptions final : FilesOfTexts {
  static constexpr std::string_view type_name = "jsonl";
  /// The keys that hold the features: a list of keys with the features' names, or a map from feature to key.
  std::variant<std::vector<std::string>, config::Named<std::string>> columns =
      std::vector<std::string>{"inputs", "targets"};
  PairsAs as = PairsAs::kPairs;

  std::vector<Side> sides() const override;
  bool joins_pairs() const override { return as == PairsAs::kTargets; }
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

void describe(config::Visitor& visit, JsonlOptions& options);

/// The kind of values in a feature of a tf.Example.
enum class StoredText { kIds, kText };
inline config::EnumNames enum_names(StoredText) {
  return {{"ids", StoredText::kIds}, {"text", StoredText::kText}};
}

struct TfrecordFeature {
  static constexpr std::string_view shorthand = "kind";
  StoredText kind = StoredText::kIds;
  std::string key;  ///< empty: the name of the feature
};

inline void describe(config::Visitor& visit, TfrecordFeature& options) {
  visit("kind", options.kind, "ids: a list of integers; text: one string, which is tokenised");
  visit("key", options.key, "its name in the file; by default that of the feature");
}

/// A source that reads TFRecord files of tf.Example messages.
struct TfrecordOptions final : FilesOfTexts {
  static constexpr std::string_view type_name = "tfrecord";
  config::Named<TfrecordFeature> features = {{"inputs", {}}, {"targets", {}}};
  int64_t vocab_shift = 0;
  bool append_eos = false;
  PairsAs as = PairsAs::kPairs;

  std::vector<Side> sides() const override;
  bool joins_pairs() const override { return as == PairsAs::kTargets; }
  bool has_ids(Side side) const override;
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

void describe(config::Visitor& visit, TfrecordOptions& options);

/// Returns the sides that are features of the rows: those in the files, unless inputs and targets are joined.
std::vector<Side> sides_in_rows(const TextSourceOptions& options);

/// True if each text in `targets` of the rows is an inputs part and a targets part, both with the end of sequence behind
/// them. Nothing: the ids in the files decide it.
std::optional<bool> has_inputs_part(const TextSourceOptions& options);

/// The packing of examples into rows. kDense reorders examples to leave little padding. kReference packs as
/// Mesh TensorFlow does. kNone puts one example into each row.
enum class Packing { kDense, kReference, kNone };
inline config::EnumNames enum_names(Packing) {
  return {{"dense", Packing::kDense}, {"reference", Packing::kReference}, {"none", Packing::kNone}};
}

/// The treatment of texts that are too long. kSplit makes consecutive pieces of them, so no token is lost.
enum class TooLong { kDrop, kCut, kSplit };
inline config::EnumNames enum_names(TooLong) {
  return {{"drop", TooLong::kDrop}, {"cut", TooLong::kCut}, {"split", TooLong::kSplit}};
}

/// Selects the examples that are trained on. Lengths are in tokens and include the end-of-sequence token.
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
        "longer texts are dropped, cut off, or split into several (only without `inputs`); null: pairs and "
        "chats "
        "are dropped, other texts split, and with `packing: reference` all cut");
}

/// The number of tokens of a row: one number for all features, or one per feature.
using SequenceLengthOptions = std::variant<int64_t, config::Named<int64_t>>;

/// Returns the length of each side; 0 for a side without a number.
BySide<int64_t> sequence_lengths(const SequenceLengthOptions& options);

}  // namespace mtf
