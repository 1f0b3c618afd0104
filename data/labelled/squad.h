// Questions about texts, whose answers are parts of them: JSON files of SQuAD 1.1 and 2.0. A row is
//   start question separator window separator      with the separators that a vocabulary has between two texts
// where the window is a part of the text that fits. Beside the features of token_rows.h there are
//   answer_mask  int32 [length]   1 at the tokens of the window and at position 0, which stands for "no answer here"
//   answer_start, answer_end  int32 []   the first and the last token of the first answer; 0 where it is not in the window
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/labelled/row_source_options.h"
#include "data/labelled/token_rows.h"
#include "data/labelled/word_encoder.h"

namespace mtf {

struct SquadOptions final : RowSourceOptions {
  static constexpr std::string_view type_name = "squad";
  static constexpr bool type_required = true;
  int64_t stride = 128;
  int64_t max_question = 64;

  std::unique_ptr<Source> open(const SourceContext& context) const override;
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>& lengths,
                                                        const BySide<int64_t>& sizes) const override;
  bool can_be_split() const override { return false; }
  /// For names that end in .json.
  bool read_from(const config::Path& file) override;
  void for_each_text(const Mark& mark, const TextUse& use) const override;
};

void describe(config::Visitor& visit, SquadOptions& options);

/// A text, its words and their tokens.
struct SquadContext {
  std::string text;
  std::vector<WordSpan> words;
  std::vector<int32_t> ids;
  std::vector<int32_t> word_of;  ///< the word of each token

  /// The part of the text from the word of token `first` to that of token `last`.
  std::string part(int64_t first, int64_t last) const;
  /// The number of characters before the word of a token.
  int64_t character(int64_t token) const;
};

struct SquadQuestion {
  std::string id, text;
  int64_t context = 0;
  std::vector<std::string> answers;  ///< empty: the text has no answer
  std::optional<size_t> start;       ///< offset of the bytes of the first answer
};

/// A row: tokens [begin, begin + count) of a text, which stand from `offset` on.
struct SquadWindow {
  int64_t question = 0;
  int64_t begin = 0, count = 0, offset = 0;
  std::vector<bool> has_most_context;  ///< [count]: no other window has more of the text around the token
};

class SquadSource final : public Source {
 public:
  /// `labelled`: there are the features of answers.
  SquadSource(TokenRows tokens, std::vector<SquadContext> contexts, std::vector<SquadQuestion> questions,
              std::vector<SquadWindow> windows, bool labelled);

  int64_t examples() const override { return tokens_.rows(); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override;
  int64_t bytes_in_memory() const override { return tokens_.bytes_in_memory(); }
  /// Whether there are questions without an answer.
  std::string preparation() const override;

  const std::vector<SquadQuestion>& questions() const { return questions_; }
  bool has_unanswerable() const;
  const SquadWindow& window(int64_t row) const { return windows_[static_cast<size_t>(row)]; }
  const SquadContext& context(const SquadQuestion& question) const {
    return contexts_[static_cast<size_t>(question.context)];
  }

 private:
  struct Answer {
    int32_t start = 0, end = 0;
  };
  Answer answer_in(const SquadWindow& window) const;

  std::vector<Feature> features_;
  TokenRows tokens_;
  std::vector<SquadContext> contexts_;
  std::vector<SquadQuestion> questions_;
  std::vector<SquadWindow> windows_;
  std::vector<Answer> answers_;  ///< [rows]
};

/// A question about a text.
struct AskedText {
  std::string question, text;
};
/// Returns the windows of texts for questions whose answers are to be predicted; `options` are those of the training data.
/// The id of a question is its number, from 0.
std::unique_ptr<Source> open_questions(const std::vector<AskedText>& asked, const SquadOptions& options,
                                       const SourceContext& context);

/// `preparation` of training data: true where some of their questions have no answer, nothing where it does not say.
std::optional<bool> prepared_unanswerable(const std::string& preparation);

/// Returns the windows of `tokens` tokens, each of at most `room`, that begin `stride` apart.
std::vector<SquadWindow> windows_of(int64_t tokens, int64_t room, int64_t stride);

}  // namespace mtf
