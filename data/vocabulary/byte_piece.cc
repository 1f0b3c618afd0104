#include "data/vocabulary/byte_piece.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace mtf {

std::string piece_of_byte(char byte) { return fmt::format("<0x{:02X}>", static_cast<uint8_t>(byte)); }

std::optional<char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
  uint8_t byte = 0;
  const char* const digits = piece.data() + 3;
  const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
  return error == std::errc() && end == digits + 2 ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

}  // namespace mtf
