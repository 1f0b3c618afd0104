#include "trainer/metrics/unicode.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>

#include "trainer/metrics/unicode_additions.h"

namespace mtf {
namespace {

unsigned char byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

constexpr bool is_ascii_white_space(unsigned char c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
}

/// Returns the number of bytes of the white space character at `at`, or 0 if another character is there.
size_t white_space_at(std::string_view text, size_t at) {
  const unsigned char first = byte_at(text, at);
  if (first < 0x80) return at < text.size() && is_ascii_white_space(first) ? 1 : 0;
  const unsigned char second = byte_at(text, at + 1), third = byte_at(text, at + 2);
  switch (first) {
    case 0xc2:  // U+0085, U+00A0
      return second == 0x85 || second == 0xa0 ? 2 : 0;
    case 0xe1:  // U+1680
      return second == 0x9a && third == 0x80 ? 3 : 0;
    case 0xe2:  // U+2000 to U+200A, U+2028, U+2029, U+202F; U+205F
      if (second == 0x81) return third == 0x9f ? 3 : 0;
      if (second != 0x80) return 0;
      return (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf ? 3 : 0;
    case 0xe3:  // U+3000
      return second == 0x80 && third == 0x80 ? 3 : 0;
    default:
      return 0;
  }
}

/// True for the first bytes of white space characters.
constexpr std::array<bool, 256> kMayBeginWhiteSpace = [] {
  std::array<bool, 256> result{};
  for (size_t c = 0; c < 0x80; ++c) result[c] = is_ascii_white_space(static_cast<unsigned char>(c));
  for (const size_t c : {0xc2, 0xe1, 0xe2, 0xe3}) result[c] = true;
  return result;
}();

/// Returns the number of bytes of the white space character at the end of `text`, or 0.
size_t white_space_before_end(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    if (white_space_at(text, text.size() - length) == length) return length;
  }
  return 0;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  words.reserve(text.size() / 4 + 1);
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    if (!kMayBeginWhiteSpace[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    const size_t white = white_space_at(text, i);
    if (white > 0 && i > begin) words.push_back(text.substr(begin, i - begin));
    i += std::max<size_t>(white, 1);
    if (white > 0) begin = i;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

std::string_view strip_right(std::string_view text) {
  while (const size_t white = white_space_before_end(text)) text.remove_suffix(white);
  return text;
}

std::string_view strip(std::string_view text) {
  while (const size_t white = white_space_at(text, 0)) text.remove_prefix(white);
  return strip_right(text);
}

std::string collapse_white_space(std::string_view text) {
  std::string result;
  for (const std::string_view word : split_words(text)) {
    if (!result.empty()) result += ' ';
    result += word;
  }
  return result;
}

CharacterClass class_of(char32_t character) {
  const auto point = static_cast<UChar32>(character);
  const uint32_t mask = U_GET_GC_MASK(point);
  if ((mask & U_GC_N_MASK) != 0) return CharacterClass::kNumber;
  if ((mask & U_GC_P_MASK) != 0) return CharacterClass::kPunctuation;
  if ((mask & U_GC_S_MASK) != 0) return CharacterClass::kSymbol;
  return (mask & U_GC_CN_MASK) != 0 ? class_of_addition(character) : CharacterClass::kOther;
}

}  // namespace mtf
