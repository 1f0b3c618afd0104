// The rules on the texts that are written: how long they are at least, which tokens may come again, and where they end.
//
//   const TextRules rules(options, &vocabulary);
//   rules.apply(text, written, tokens, log_probs);   // before a token is chosen from the candidates
//   if (rules.stop(given, written)) ...              // behind it
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/vocabulary.h"
#include "trainer/config/infer_options.h"

namespace mtf {

/// Returns where in `text`, not before `begin`, the first of the texts `stop` is; the text's length if there is none.
size_t first_stop(std::string_view text, size_t begin, const std::vector<std::string>& stop);

/// Returns the ids of pieces. Throws Error (kConfig) for one that the vocabulary lacks.
std::vector<int32_t> ids_of_pieces(const std::vector<config::Name>& pieces, const Vocabulary& vocabulary);

class TextRules {
 public:
  /// `vocabulary`: that of the texts, which must outlive the object; it may be null where options.stop, options.stop_tokens and
  /// options.suppress_tokens are empty. `start`: the token before each text, which counts for the repetition penalty.
  TextRules(const DecodeOptions& options, const Vocabulary* vocabulary, int32_t start = kPadId);

  /// True if apply() changes anything.
  bool changes_candidates() const { return most_changed(1) > 0; }
  /// Returns the number of candidates of a text of `tokens` tokens that apply() changes, at most.
  int64_t most_changed(int64_t tokens) const;
  /// Takes penalties from the log-probabilities of the tokens that may follow `text`; of those that must not, sets them to
  /// -infinity. Where this leaves none, the text may end. `written`: the number of last tokens of the text that were written,
  /// not given. `tokens`, `log_probs`: [candidates]; tokens may be empty: 0, 1, ... `total`: the logits, less the
  /// log-probabilities; with 0 the repetition penalty is one of log-probabilities, as in beam search.
  void apply(std::span<const int32_t> text, size_t written, std::span<const int32_t> tokens,
             std::span<float> log_probs, float total = 0) const;
  /// True if apply() can make tokens likelier, so that all of them must be looked at.
  bool raises() const { return presence_penalty_ < 0 || frequency_penalty_ < 0 || repetition_penalty_ < 1; }
  bool penalises_repetition() const { return repetition_penalty_ != 1; }
  /// True if a text ends with this token: the end of sequence, or one of options.stop_tokens.
  bool is_end(int32_t token) const;
  /// The number of tokens with which a text ends.
  int64_t ends() const { return std::ssize(ends_); }
  /// True if a text that reaches its limit ends with the end of sequence.
  bool forces_end() const { return forces_end_; }
  bool has_stops() const { return !stop_.empty(); }
  /// True if a text at which texts end has been written with the last token. `given`: the tokens before those that were written.
  bool stop(std::span<const int32_t> given, std::span<const int32_t> written) const;

 private:
  bool has_penalties() const { return presence_penalty_ != 0 || frequency_penalty_ != 0; }

  int64_t min_length_;
  bool forces_end_;
  size_t no_repeat_;
  double presence_penalty_ = 0, frequency_penalty_ = 0;
  double repetition_penalty_;
  int32_t start_;
  std::vector<int32_t> suppressed_, ends_;  ///< ends_: the end of sequence, and then options.stop_tokens
  std::vector<std::string> stop_;
  size_t stop_tokens_ = 0;  ///< the number of last tokens that may be those of a text of stop_
  const Vocabulary* vocabulary_;
};

}  // namespace mtf
