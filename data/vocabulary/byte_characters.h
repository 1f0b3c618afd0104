// Bytes as visible characters, as in the vocabularies of GPT-2 and its successors: "Ġthe" is " the".
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Returns a character for each byte: itself where it is visible in Latin-1, otherwise one from U+0100.
std::string bytes_as_characters(std::string_view bytes);
/// Returns the bytes; the text itself if one of its characters stands for no byte.
std::string bytes_of_characters(std::string_view text);

}  // namespace mtf
