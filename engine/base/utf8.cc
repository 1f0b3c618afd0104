#include "engine/base/utf8.h"

#include <unicode/utf8.h>

#include <cstdint>
#include <cstring>

#include "engine/base/printable.h"

namespace mtf {
namespace {

/// Returns the number of leading ASCII bytes of `text`, in whole words: it may stop a little early.
size_t ascii_length(std::string_view text) {
  size_t length = 0;
  for (uint64_t word; length + sizeof word <= text.size(); length += sizeof word) {
    std::memcpy(&word, text.data() + length, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  return length;
}

}  // namespace

char32_t next_character(std::string_view text, size_t& at) {
  UChar32 character = 0;
  U8_NEXT_OR_FFFD(text.data(), at, text.size(), character);
  return static_cast<char32_t>(character);
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) characters += next_character(text, at);
  return characters;
}

void append_utf8(char32_t character, std::string& text, char32_t otherwise) {
  char bytes[U8_MAX_LENGTH];
  size_t length = 0;
  UBool failed = false;
  U8_APPEND(bytes, length, static_cast<size_t>(U8_MAX_LENGTH), static_cast<UChar32>(character), failed);
  if (failed) return append_utf8(otherwise, text);
  text.append(bytes, length);
}

std::optional<size_t> first_invalid_byte(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    offset += ascii_length(text.substr(offset));
    if (offset == text.size()) break;
    const size_t length = utf8_length(text.substr(offset));
    if (length == 0) return offset;
    offset += length;
  }
  return std::nullopt;
}

std::string valid_utf8(std::string_view text) {
  if (!first_invalid_byte(text)) return std::string(text);
  std::string result;
  for (size_t at = 0; at < text.size();) append_utf8(next_character(text, at), result);
  return result;
}

}  // namespace mtf
