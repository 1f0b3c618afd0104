#include "engine/config/json_escapes.h"

#include <fmt/format.h>
#include <unicode/utf16.h>

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace mtf::config {
namespace {

constexpr size_t kEscape = 6;  ///< bytes of `\ud83d`

/// Returns the number of an escape at the front of `text`.
std::optional<uint32_t> code_unit(std::string_view text) {
  if (text.size() < kEscape || !text.starts_with("\\u")) return std::nullopt;
  uint32_t number = 0;
  const char* const end = text.data() + kEscape;
  const auto [rest, error] = std::from_chars(text.data() + 2, end, number, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace

std::optional<char32_t> surrogate_pair(std::string_view text) {
  const auto lead = code_unit(text);
  if (!lead || !U16_IS_LEAD(*lead)) return std::nullopt;
  const auto trail = code_unit(text.substr(kEscape));
  if (!trail || !U16_IS_TRAIL(*trail)) return std::nullopt;
  return static_cast<char32_t>(U16_GET_SUPPLEMENTARY(*lead, *trail));
}

std::string with_yaml_escapes(std::string_view text) {
  const bool may_have_pairs =
      text.find("\\ud") != std::string_view::npos || text.find("\\uD") != std::string_view::npos;
  if (!may_have_pairs || !nlohmann::json::accept(text)) return std::string(text);
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (const auto character = surrogate_pair(text.substr(at))) {
      result += fmt::format("\\U{:08x}", static_cast<uint32_t>(*character));
      at += 2 * kEscape;
    } else {
      const size_t length = text[at] == '\\' ? 2 : 1;  // `\\u` is a backslash and a letter
      result += text.substr(at, length);
      at += length;
    }
  }
  return result;
}

}  // namespace mtf::config
