#include "trainer/decode/text_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace mtf {

size_t first_stop(std::string_view text, size_t begin, const std::vector<std::string>& stop) {
  size_t first = text.size();
  for (const std::string& words : stop) first = std::min(first, text.find(words, begin));
  return first;
}

TextRules::TextRules(const DecodeOptions& options, const Vocabulary* vocabulary)
    : min_length_(options.min_length),
      no_repeat_(static_cast<size_t>(options.no_repeat_ngram_size)),
      stop_(options.stop),
      vocabulary_(vocabulary) {
  if (const SampleMethod* method = options.sampling()) {
    presence_penalty_ = method->presence_penalty;
    frequency_penalty_ = method->frequency_penalty;
  }
  // The first of these tokens may lose a space at its beginning; each of the others has a byte or more.
  for (const std::string& words : stop_) stop_tokens_ = std::max(stop_tokens_, words.size() + 1);
}

int64_t TextRules::most_changed(int64_t tokens) const {
  const int64_t repeated = no_repeat_ > 0 || has_penalties() ? tokens : 0;
  return repeated + (min_length_ > 0 ? 1 : 0);
}

void TextRules::apply(std::span<const int32_t> text, size_t written, std::span<const int32_t> tokens,
                      std::span<float> log_probs) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::unordered_map<int32_t, double> losses;
  if (has_penalties()) {
    for (const int32_t token : text.last(written)) {
      const auto [loss, is_first] = losses.try_emplace(token, presence_penalty_);
      loss->second += frequency_penalty_;
    }
  }
  if (no_repeat_ > 0) {
    const auto end = text.last(std::min(text.size(), no_repeat_ - 1));
    for (size_t i = 0; i + no_repeat_ <= text.size(); ++i) {
      if (std::ranges::equal(text.subspan(i, no_repeat_ - 1), end)) losses[text[i + no_repeat_ - 1]] = kNever;
    }
    losses.erase(kEosId);  // where it ends a prompt
  }
  if (static_cast<int64_t>(written) < min_length_) losses[kEosId] = kNever;

  float log_prob_of_end = -std::numeric_limits<float>::infinity();
  size_t end = log_probs.size();
  bool is_any_left = false;
  for (size_t i = 0; i < log_probs.size(); ++i) {
    const int32_t token = tokens.empty() ? static_cast<int32_t>(i) : tokens[i];
    if (token == kEosId) {
      end = i;
      log_prob_of_end = log_probs[i];
    }
    if (const auto loss = losses.find(token); loss != losses.end())
      log_probs[i] = static_cast<float>(log_probs[i] - loss->second);
    is_any_left = is_any_left || std::isfinite(log_probs[i]);
  }
  if (!is_any_left && end < log_probs.size()) log_probs[end] = log_prob_of_end;
}

bool TextRules::stop(std::span<const int32_t> written) const {
  if (stop_.empty()) return false;
  const std::string end = vocabulary_->decode(written.last(std::min(written.size(), stop_tokens_)));
  return first_stop(end, 0, stop_) < end.size();
}

}  // namespace mtf
