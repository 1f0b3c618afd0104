#include "data/vocabulary/byte_characters.h"

#include <array>

#include "engine/base/utf8.h"

namespace mtf {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

constexpr bool stands_for_itself(char32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

struct ByteTables {
  std::array<char32_t, 256> characters{};
  std::array<int, 2 * kFirstStandIn> bytes{};  ///< what each character stands for; -1: none

  constexpr ByteTables() {
    bytes.fill(-1);
    char32_t stand_in = kFirstStandIn;
    for (char32_t byte = 0; byte < characters.size(); ++byte) {
      characters[byte] = stands_for_itself(byte) ? byte : stand_in++;
      bytes[characters[byte]] = static_cast<int>(byte);
    }
  }
};
constexpr ByteTables kByteTables;

}  // namespace

std::string bytes_as_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(kByteTables.characters[static_cast<unsigned char>(byte)], text);
  return text;
}

std::string bytes_of_characters(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const char32_t character = next_character(text, at);
    const int byte = character < kByteTables.bytes.size() ? kByteTables.bytes[character] : -1;
    if (byte < 0) return std::string(text);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace mtf
