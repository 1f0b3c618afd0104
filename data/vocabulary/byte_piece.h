// How vocabularies spell a byte that no other token has: "<0xE4>".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mtf {

std::string piece_of_byte(char byte);
/// Returns nullopt for another text.
std::optional<char> byte_of_piece(std::string_view piece);

}  // namespace mtf
