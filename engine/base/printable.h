// Makes any text printable on a terminal: whatever a file contains, a message stays one line of UTF-8. Also
// counts characters and columns of UTF-8 text, and prints lists of names.
//
//   printable("a\n\x1b\xff")   // "a\\n\\x1b\\xff"
//   character_count("größe")    // 5, in 7 bytes
//   display_width("実行")       // 4: each fills two columns
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// Returns the number of bytes of the UTF-8 character at the front of `text`; 0 if there is no valid one.
size_t utf8_length(std::string_view text);
/// Returns `text` with control characters and invalid bytes escaped as \n, \t, \r or \x1b.
std::string printable(std::string_view text);
/// The same, but keeps newlines.
std::string printable_lines(std::string_view text);
/// Replaces each of them by one � instead, so that columns still count characters.
std::string printable_columns(std::string_view line);

/// Returns the number of characters (not bytes) of UTF-8 text.
int character_count(std::string_view text);
/// Returns the offset of the byte at which character `index` (from 0) begins; the size of `text` if it has
/// fewer.
size_t byte_of_character(std::string_view text, int index);
/// Returns the number of terminal columns of the text: East Asian wide characters take two, combining ones
/// none.
int display_width(std::string_view text);

/// Returns `text` without the middle of very long words and parts in backquotes, because what a message
/// quotes may be a whole file.
std::string shortened(std::string_view text);

/// Lists at most `most` of the names: "a, b, c and 7 more".
std::string list_names(const std::vector<std::string>& names, size_t most);

}  // namespace mtf
