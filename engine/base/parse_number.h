#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace mtf {

/// Returns the number that the whole text is, in decimal. nullopt where T cannot hold it, for an empty text, and for
/// anything beside the number: blanks, a plus sign, for unsigned types a minus sign. Floating-point types take "inf" and
/// "nan" too: callers that need a finite number check that.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

}  // namespace mtf
