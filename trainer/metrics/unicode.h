// White space and character categories of UTF-8 text as in Python, on which the tokenisers of sacreBLEU
// depend.
//
//   split_words(" ein\u00a0Haus ")   // {"ein", "Haus"}
//   class_of(U'€')                   // kSymbol
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/utf8.h"

namespace mtf {

/// Splits a text at white space as defined by Python's str.isspace(), which includes U+00A0 and U+3000.
std::vector<std::string_view> split_words(std::string_view text);
/// Return the text without white space at its end, or at both ends.
std::string_view strip_right(std::string_view text);
std::string_view strip(std::string_view text);
/// Returns the words of a text, separated by single blanks.
std::string collapse_white_space(std::string_view text);

enum class CharacterClass { kNumber, kPunctuation, kSymbol, kOther };
/// Returns the class of a character: the general categories N*, P*, S*, or others.
CharacterClass class_of(char32_t character);

}  // namespace mtf
