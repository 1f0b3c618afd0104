// Reads and writes UTF-8 text character by character.
//
//   for (size_t at = 0; at < text.size();) use(next_character(text, at));
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mtf {

/// Returns the character at offset `at` and moves `at` behind it; U+FFFD for an invalid byte.
char32_t next_character(std::string_view text, size_t& at);
/// Returns all characters of the text.
std::u32string decode_utf8(std::string_view text);
/// Appends a character to `text`; if it is not a valid code point, appends `otherwise` in its place.
void append_utf8(char32_t character, std::string& text, char32_t otherwise = U'\ufffd');
/// Returns the offset of the first byte that is not valid UTF-8.
std::optional<size_t> first_invalid_byte(std::string_view text);
/// Returns `text` with U+FFFD for what is no UTF-8: one for each longest part of a character, as Python and Rust do.
std::string valid_utf8(std::string_view text);

}  // namespace mtf
