#include "data/text/token_words.h"

#include <algorithm>
#include <optional>
#include <string>

namespace mtf {
namespace {

/// The tokens of a text without the first token of the vocabulary.
std::vector<int32_t> encode_alone(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<int32_t> ids = vocabulary.encode(text);
  if (vocabulary.first_token() && !ids.empty()) ids.erase(ids.begin());
  return ids;
}

constexpr std::string_view kBlanks = " \t\n\v\f\r";
/// The number of tokens up to which words are found by encoding all beginnings of a text.
constexpr size_t kMostByBeginnings = 4096;

/// Where each word of the text ends.
std::vector<size_t> ends_of_words(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = text.find_first_not_of(kBlanks, ends.back()))
    ends.push_back(std::min(text.find_first_of(kBlanks, begin), text.size()));
  return ends;
}

/// Gives the tokens up to `end` that have no word yet `word`.
void fill_up_to(std::vector<int32_t>& words, size_t end, size_t most, int32_t word) {
  words.resize(std::max(words.size(), std::min(end, most)), word);
}

/// The number of the tokens, or of those that are left, if these begin with them.
std::optional<size_t> count_if_next(const std::vector<int32_t>& tokens, std::span<const int32_t> left) {
  const size_t count = std::min(tokens.size(), left.size());
  if (!std::equal(tokens.begin(), tokens.begin() + static_cast<int64_t>(count), left.begin()))
    return std::nullopt;
  return count;
}

std::string_view without_blanks_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

/// Where words that are encoded one by one, with the blanks before them or without, give the tokens of the text: the words of the
/// tokens; otherwise nothing, or words of some. This takes time in proportion to the text.
std::vector<int32_t> words_encoded_apart(const Vocabulary& vocabulary, std::string_view text,
                                         const std::vector<size_t>& ends, std::span<const int32_t> ids) {
  std::vector<int32_t> words;
  for (size_t w = 0, begin = 0; w < ends.size() && words.size() < ids.size(); begin = ends[w++]) {
    const size_t end = w + 1 == ends.size() ? text.size() : ends[w];
    const std::span<const int32_t> rest = ids.subspan(words.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::optional<size_t> count = count_if_next(encode_alone(vocabulary, word), rest);
    // Some vocabularies put a blank before each text.
    if (!count) count = count_if_next(encode_alone(vocabulary, without_blanks_before(word)), rest);
    if (!count) return {};
    fill_up_to(words, words.size() + *count, ids.size(), static_cast<int32_t>(w));
  }
  return words;
}

/// For any vocabulary: a word begins behind the tokens of the text up to the end of the word before it. The time grows with the
/// square of the text: the tokens of a longer one have no words.
std::vector<int32_t> words_by_beginnings(const Vocabulary& vocabulary, std::string_view text,
                                         const std::vector<size_t>& ends, std::span<const int32_t> ids) {
  if (ids.size() > kMostByBeginnings) return std::vector<int32_t>(ids.size(), kNoWord);
  std::vector<int32_t> words;
  for (size_t w = 0; w < ends.size(); ++w) {
    const std::vector<int32_t> before = encode_alone(vocabulary, text.substr(0, ends[w]));
    const auto [own, whole] = std::ranges::mismatch(before, ids);
    const bool reaches_beyond = own != before.end();
    fill_up_to(words, static_cast<size_t>(whole - ids.begin()) + (reaches_beyond ? 1 : 0), ids.size(),
               static_cast<int32_t>(w));
  }
  fill_up_to(words, ids.size(), ids.size(), static_cast<int32_t>(ends.size()) - 1);
  return words;
}

/// words_of_tokens() without a first token.
std::vector<int32_t> words_of_text(const Vocabulary& vocabulary, std::string_view text,
                                   std::span<const int32_t> ids) {
  const std::vector<size_t> ends = ends_of_words(text);
  std::vector<int32_t> words = words_encoded_apart(vocabulary, text, ends, ids);
  return words.size() == ids.size() ? words : words_by_beginnings(vocabulary, text, ends, ids);
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return kBlanks.find(c) != std::string_view::npos; });
  return text;
}

}  // namespace

int32_t count_words(std::string_view text) { return static_cast<int32_t>(ends_of_words(text).size()); }

std::vector<int32_t> words_of_tokens(const Vocabulary& vocabulary, std::string_view text,
                                     std::span<const int32_t> ids) {
  if (!ids.empty() && ids.front() == vocabulary.first_token()) {
    std::vector<int32_t> words = words_of_text(vocabulary, text, ids.subspan(1));
    words.insert(words.begin(), kNoWord);
    return words;
  }
  return words_of_text(vocabulary, text, ids);
}

std::vector<int32_t> words_of_written(const Vocabulary& vocabulary, std::span<const int32_t> ids) {
  const auto count = static_cast<size_t>(std::ranges::find(ids, kEosId) - ids.begin());
  std::vector<int32_t> words(ids.size(), kNoWord);
  std::vector<bool> shows(count);
  std::string before;
  for (size_t i = 0; i < count; ++i) {
    const std::string text = vocabulary.decode(ids.first(i + 1));
    words[i] = count_words(text) - 1;
    std::string now = without_blanks(text);
    shows[i] = now != before;
    before = std::move(now);
  }
  // Later tokens may join words, as those of punctuation do, and what shows nothing begins what follows it.
  for (size_t next = count; next-- > 1;) {
    int32_t& word = words[next - 1];
    word = shows[next - 1] ? std::min(word, words[next]) : words[next];
  }
  if (!ids.empty() && ids.front() == vocabulary.first_token()) words.front() = kNoWord;
  return words;
}

}  // namespace mtf
