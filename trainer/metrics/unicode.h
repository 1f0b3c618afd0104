// UTF-8 text seen as Python sees it: white space and the categories of characters, on which the tokenisers of
// sacreBLEU rest.
//
//   split_words(" ein\u00a0Haus ")   // {"ein", "Haus"}
//   class_of(U'€')                   // kSymbol
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/utf8.h"

namespace mtf {

/// Words between white space, which is what `str.isspace()` of Python calls so (U+00A0 and U+3000 too).
std::vector<std::string_view> split_words(std::string_view text);
/// Without white space at the end; at both ends.
std::string_view strip_right(std::string_view text);
std::string_view strip(std::string_view text);
/// Words with one blank between two.
std::string collapse_white_space(std::string_view text);

enum class CharacterClass { kNumber, kPunctuation, kSymbol, kOther };
/// The general categories N*, P*, S* and all others.
CharacterClass class_of(char32_t character);

void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace mtf
