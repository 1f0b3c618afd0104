// Sentences whose words have tags, as in the shared tasks of CoNLL: a word in each line, its columns between blanks, and a
// blank line after each sentence. Beside the features of token_rows.h there is `labels` int32 [length]: the tag of a word
// at its first token, kNoTag at all others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/class_names.h"
#include "data/labelled/row_source_options.h"
#include "data/labelled/token_rows.h"

namespace mtf {

/// The label of positions that have no tag.
inline constexpr int32_t kNoTag = -1;

struct ConllOptions final : RowSourceOptions {
  static constexpr std::string_view type_name = "conll";
  static constexpr bool type_required = true;
  int64_t word = 1;
  std::optional<int64_t> tag;
  std::vector<std::string> classes;

  std::unique_ptr<Source> open(const SourceContext& context) const override;
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>& lengths,
                                                        const BySide<int64_t>& sizes) const override;
  bool can_be_split() const override { return false; }
  /// For names that end in .conll.
  bool read_from(const config::Path& file) override;
  void for_each_text(const Mark& mark, const TextUse& use) const override;
};

void describe(config::Visitor& visit, ConllOptions& options);

/// Where the tag of a word is predicted.
struct TaggedToken {
  int32_t word;      ///< index in its sentence
  int32_t position;  ///< its first token in the row
};

/// Sentences that are too long for a row go on in the next one, between two words.
class ConllSource final : public Source {
 public:
  struct Sentence {
    std::vector<std::string> words;
    std::vector<int32_t> tags;  ///< those of the words; empty where they are not known
  };
  struct Row {
    int64_t sentence;
    std::vector<TaggedToken> tokens;  ///< of the words that have a token
  };

  /// `labelled`: the sentences have tags, and there is the feature `labels`. `places`: those of words by their tags.
  ConllSource(TokenRows tokens, std::vector<Sentence> sentences, std::vector<Row> rows,
              std::vector<std::string> tags, ClassPlaces places, bool labelled);

  int64_t examples() const override { return tokens_.rows(); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  int64_t bytes_in_memory() const override { return tokens_.bytes_in_memory(); }
  std::vector<std::string> class_names() const override { return tags_; }
  std::string preparation() const override;
  void check_labels(const LabelRange& classes) const override;

  const std::vector<Sentence>& sentences() const { return sentences_; }
  const Row& row(int64_t row) const { return rows_[static_cast<size_t>(row)]; }

 private:
  int32_t label(int64_t row, int64_t position) const;

  std::vector<Feature> features_;
  TokenRows tokens_;
  std::vector<Sentence> sentences_;
  std::vector<Row> rows_;
  std::vector<std::string> tags_;
  ClassPlaces places_;
};

/// Returns the parts of a line between blanks, of which `blanks` are all kinds.
std::vector<std::string_view> words_in(std::string_view line, std::string_view blanks = " \t");

/// Returns the rows of sentences whose tags are to be predicted.
std::unique_ptr<Source> open_sentences(std::vector<std::vector<std::string>> sentences,
                                       const SpecialTokenOptions& special_tokens,
                                       const SourceContext& context);

}  // namespace mtf
