#include "trainer/metrics/tercom_tokenizer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "data/text/lowercase.h"
#include "engine/base/replace_all.h"
#include "trainer/metrics/separate.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

using Range = std::pair<char32_t, char32_t>;

/// Ideographs and their parts. The range from U+3200 ends as in sacreBLEU, by mistake instead of at U+32FF.
constexpr std::array<Range, 7> kIdeographs = {{{0x2e80, 0x2eff},
                                               {0x31c0, 0x31ef},
                                               {0x3200, 0x3f22},
                                               {0x3400, 0x4dbf},
                                               {0x4e00, 0x9fff},
                                               {0xf900, 0xfaff},
                                               {0xfe30, 0xfe4f}}};

/// Asian and full-width punctuation.
constexpr std::array<Range, 11> kPunctuationMarks = {{{0x3001, 0x3002},
                                                      {0x3008, 0x3011},
                                                      {0x3014, 0x301f},
                                                      {0x30fb, 0x30fb},
                                                      {0xff01, 0xff02},
                                                      {0xff08, 0xff09},
                                                      {0xff0c, 0xff0c},
                                                      {0xff0e, 0xff0e},
                                                      {0xff1a, 0xff1b},
                                                      {0xff1f, 0xff1f},
                                                      {0xff61, 0xff65}}};

bool is_in(std::span<const Range> ranges, char32_t character) {
  return std::ranges::any_of(ranges, [character](const Range& range) {
    return range.first <= character && character <= range.second;
  });
}

std::string separate_asian(std::string_view text) {
  std::string result;
  for (const char32_t character : decode_utf8(text)) {
    const bool alone = is_in(kIdeographs, character) || is_in(kPunctuationMarks, character);
    if (alone) result += ' ';
    append_utf8(character, result);
    if (alone) result += ' ';
  }
  return result;
}

std::string without_asian_punctuation(std::string_view text) {
  std::string result;
  for (const char32_t character : decode_utf8(text)) {
    if (!is_in(kPunctuationMarks, character)) append_utf8(character, result);
  }
  return result;
}

std::string normalized(std::string_view line) {
  std::string text = " ";
  text.append(line).append(" ");
  replace_all(text, "\n-", "");
  replace_all(text, "\n", " ");
  unescape(text);
  text = separate_symbols(text);
  replace_all(text, "'s ", " 's ");
  return separate_periods(text);
}

}  // namespace

std::string tercom_tokenize(std::string_view line, const TercomOptions& options) {
  std::string text(strip_right(line));
  if (!options.case_sensitive) text = to_lower_case(text);
  if (options.normalized) {
    text = normalized(text);
    if (options.asian_support) text = separate_asian(text);
  }
  if (options.no_punctuation) {
    std::erase_if(text,
                  [](char c) { return std::string_view(".,?:;!\"()").find(c) != std::string_view::npos; });
    if (options.asian_support) text = without_asian_punctuation(text);
  }
  return text;
}

}  // namespace mtf
