// Text from files as it can be shown on a terminal: whatever stands in a file, a message stays one line of
// UTF-8. Characters and columns of UTF-8 text; lists of names.
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

/// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none.
size_t utf8_length(std::string_view text);
/// `text` with control characters and bytes that are no UTF-8 as \n, \t, \r or \x1b.
std::string printable(std::string_view text);
/// The same, but ends of lines stay.
std::string printable_lines(std::string_view text);
/// The same with one � for each of them, so that columns still count characters.
std::string printable_columns(std::string_view line);

/// Characters (not bytes) of UTF-8 text.
int character_count(std::string_view text);
/// Offset of the byte at which character `index` (from 0) begins; the size of `text` when it has fewer.
size_t byte_of_character(std::string_view text, int index);
/// Columns of a terminal that the text fills: East Asian characters two, combining ones none.
int display_width(std::string_view text);

/// `text`, where parts in backquotes and words that are very long lose their middle: what a message quotes
/// may be a whole file.
std::string shortened(std::string_view text);

/// "a, b, c and 7 more": no more than `most` of the names.
std::string list_names(const std::vector<std::string>& names, size_t most);

}  // namespace mtf
