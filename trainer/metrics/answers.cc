#include "trainer/metrics/answers.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <map>

#include "data/text/lowercase.h"
#include "engine/base/utf8.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

bool is_ascii_punctuation(char c) {
  return (c > 32 && c < 48) || (c > 57 && c < 65) || (c > 90 && c < 97) || (c > 122 && c < 127);
}

/// What Python's \w matches.
bool is_word_character(char32_t c) {
  return u_isalpha(static_cast<UChar32>(c)) || class_of(c) == CharacterClass::kNumber || c == U'_';
}

/// Replaces each article that stands as a word by a blank.
std::string without_articles(std::string_view text) {
  constexpr std::array<std::string_view, 3> kArticles = {"a", "an", "the"};
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    size_t end = at;
    while (at < text.size() && is_word_character(next_character(text, at))) end = at;
    const std::string_view word = text.substr(begin, end - begin);
    result += std::ranges::find(kArticles, word) == kArticles.end() ? word : " ";
    result += text.substr(end, at - end);
  }
  return result;
}

/// The F1 of the words that both have, with how often.
double word_f1(std::string_view answer, std::string_view right, bool unanswerable) {
  const std::vector<std::string_view> a = split_words(answer), b = split_words(right);
  if (unanswerable && (a.empty() || b.empty())) return a.empty() && b.empty() ? 1 : 0;
  std::map<std::string_view, int64_t> counts;
  for (const std::string_view word : b) ++counts[word];
  int64_t same = 0;
  for (const std::string_view word : a) same += counts[word]-- > 0;
  if (same == 0) return 0;
  const double precision = static_cast<double>(same) / static_cast<double>(a.size());
  const double recall = static_cast<double>(same) / static_cast<double>(b.size());
  return 2 * precision * recall / (precision + recall);
}

double percentage(double sum, int64_t count) {
  return count == 0 ? 0 : 100 * sum / static_cast<double>(count);
}

}  // namespace

std::string normalized_answer(std::string_view answer) {
  std::string text = to_lower_case(answer);
  std::erase_if(text, is_ascii_punctuation);
  return collapse_white_space(without_articles(text));
}

void AnswerScores::add(std::string_view answer, const std::vector<std::string>& right) {
  const std::string given = normalized_answer(answer);
  std::vector<std::string> answers;
  for (const std::string& text : right) answers.push_back(normalized_answer(text));
  if (unanswerable_) std::erase(answers, "");
  if (answers.empty()) answers.emplace_back();
  double best = 0;
  for (const std::string& text : answers) best = std::max(best, word_f1(given, text, unanswerable_));
  ++questions_;
  exact_ += std::ranges::find(answers, given) != answers.end();
  f1_ += best;
}

double AnswerScores::exact_match() const { return percentage(static_cast<double>(exact_), questions_); }
double AnswerScores::f1() const { return percentage(f1_, questions_); }

}  // namespace mtf
