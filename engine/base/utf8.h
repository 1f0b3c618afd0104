// UTF-8 text as characters.
//
//   for (size_t at = 0; at < text.size();) use(next_character(text, at));
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mtf {

/// The character at `at`, which moves behind it; U+FFFD for a byte that is no UTF-8.
char32_t next_character(std::string_view text, size_t& at);
/// All characters of the text.
std::u32string decode_utf8(std::string_view text);
/// What is no character is written as `otherwise`.
void append_utf8(char32_t character, std::string& text, char32_t otherwise = U'\ufffd');
/// Offset of the first byte that is no UTF-8.
std::optional<size_t> first_invalid_byte(std::string_view text);

}  // namespace mtf
