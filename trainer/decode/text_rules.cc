#include "trainer/decode/text_rules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <unordered_map>

#include "data/vocabulary/special_tokens.h"

namespace mtf {
namespace {

/// What becomes of the log-probability of a token.
struct Change {
  bool repeats = false;  ///< the text has the token already
  double loss = 0;
};

/// The most tokens that may stand for one byte: T2T vocabularies spell characters as `\32;`.
constexpr size_t kTokensOfByte = 5;
/// The first of some tokens may be another text than behind those before them, as `##s` of WordPiece. So many later ones are the
/// same.
constexpr size_t kLeadingTokens = 16;

}  // namespace

size_t first_stop(std::string_view text, size_t begin, const std::vector<std::string>& stop) {
  size_t first = text.size();
  for (const std::string& words : stop) first = std::min(first, text.find(words, begin));
  return first;
}

std::vector<int32_t> ids_of_pieces(const std::vector<config::Name>& pieces, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (const config::Name& piece : pieces) ids.push_back(required_piece(piece.text, vocabulary, piece.mark));
  return ids;
}

TextRules::TextRules(const DecodeOptions& options, const Vocabulary* vocabulary, int32_t start)
    : min_length_(options.min_length),
      forces_end_(options.force_end),
      no_repeat_(static_cast<size_t>(options.no_repeat_ngram_size)),
      repetition_penalty_(options.repetition_penalty),
      start_(start),
      ends_{kEosId},
      stop_(options.stop),
      vocabulary_(vocabulary) {
  if (!options.suppress_tokens.empty()) suppressed_ = ids_of_pieces(options.suppress_tokens, *vocabulary);
  if (!options.stop_tokens.empty())
    std::ranges::copy(ids_of_pieces(options.stop_tokens, *vocabulary), std::back_inserter(ends_));
  if (const SampleMethod* method = options.sampling()) {
    presence_penalty_ = method->presence_penalty;
    frequency_penalty_ = method->frequency_penalty;
  }
  for (const std::string& words : stop_)
    stop_tokens_ = std::max(stop_tokens_, kTokensOfByte * (words.size() + 1));
}

int64_t TextRules::most_changed(int64_t tokens) const {
  const int64_t repeated = no_repeat_ > 0 || has_penalties() ? tokens : 0;
  const int64_t penalised = penalises_repetition() ? tokens + 1 : 0;
  return std::max(repeated, penalised) + std::ssize(suppressed_) + (min_length_ > 0 ? std::ssize(ends_) : 0);
}

void TextRules::apply(std::span<const int32_t> text, size_t written, std::span<const int32_t> tokens,
                      std::span<float> log_probs, float total) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::unordered_map<int32_t, Change> changes;
  if (has_penalties()) {
    for (const int32_t token : text.last(written)) {
      const auto [change, is_first] = changes.try_emplace(token, Change{.loss = presence_penalty_});
      change->second.loss += frequency_penalty_;
    }
  }
  if (penalises_repetition()) {
    changes[start_].repeats = true;
    for (const int32_t token : text) changes[token].repeats = true;
  }
  if (no_repeat_ > 0) {
    const auto end = text.last(std::min(text.size(), no_repeat_ - 1));
    for (size_t i = 0; i + no_repeat_ <= text.size(); ++i) {
      const int32_t next = text[i + no_repeat_ - 1];
      const bool ends_prompt = next == kEosId;
      if (!ends_prompt && std::ranges::equal(text.subspan(i, no_repeat_ - 1), end))
        changes[next].loss = kNever;
    }
  }
  for (const int32_t token : suppressed_) changes[token].loss = kNever;
  if (static_cast<int64_t>(written) < min_length_) {
    for (const int32_t token : ends_) changes[token].loss = kNever;
  }

  size_t end = kEosId;
  if (!tokens.empty()) end = static_cast<size_t>(std::ranges::find(tokens, kEosId) - tokens.begin());
  const float log_prob_of_end = end < log_probs.size() ? log_probs[end] : 0;
  const auto apply_to = [&](size_t i, const Change& change) {
    double log_prob = log_probs[i];
    if (change.repeats) {
      const double logit = log_prob + total;
      log_prob = (logit > 0 ? logit / repetition_penalty_ : logit * repetition_penalty_) - total;
    }
    log_probs[i] = static_cast<float>(log_prob - change.loss);
  };
  if (tokens.empty()) {
    for (const auto& [token, change] : changes) apply_to(static_cast<size_t>(token), change);
  } else if (!changes.empty()) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (const auto change = changes.find(tokens[i]); change != changes.end()) apply_to(i, change->second);
    }
  }
  const bool is_any_left = std::ranges::any_of(log_probs, [](float value) { return std::isfinite(value); });
  if (!is_any_left && end < log_probs.size()) log_probs[end] = log_prob_of_end;
}

bool TextRules::is_end(int32_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

bool TextRules::stop(std::span<const int32_t> given, std::span<const int32_t> written) const {
  if (stop_.empty()) return false;
  const size_t window = kLeadingTokens + stop_tokens_;
  const auto tail = written.last(std::min(written.size(), window));
  std::vector<int32_t> tokens;
  for (size_t i = given.size(); i > 0 && tokens.size() < window - tail.size(); --i) {
    if (given[i - 1] != kEosId) tokens.push_back(given[i - 1]);
  }
  std::ranges::reverse(tokens);
  size_t leading = tokens.size();
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  if (tokens.size() == window) leading = std::max(leading, kLeadingTokens);
  const size_t begin = vocabulary_->decode(std::span(tokens).first(leading)).size();
  const std::string text = vocabulary_->decode(tokens);
  return first_stop(text, begin, stop_) < text.size();
}

}  // namespace mtf
