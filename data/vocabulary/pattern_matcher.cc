#include "data/vocabulary/pattern_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// `^` and `$` stand at each end of a line, and lines end with \n only, as in Oniguruma's syntax of Ruby.
constexpr uint32_t kRegexFlags = UREGEX_MULTILINE | UREGEX_UNIX_LINES;

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Returns a part of the expression that Oniguruma and ICU read differently, or that one of them does not know.
std::optional<std::string_view> ambiguous_part(std::string_view regex) {
  constexpr std::string_view kSameEscapes = "dDsSpPnrtfxu";
  constexpr std::array<std::string_view, 7> kSameGroups = {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"};
  for (size_t at = 0; at + 1 < regex.size(); ++at) {
    const std::string_view rest = regex.substr(at + 1);
    const auto begins = [&](std::string_view group) { return rest.starts_with(group); };
    if (regex[at] == '\\') {
      if (is_ascii_letter(rest[0]) && kSameEscapes.find(rest[0]) == std::string_view::npos)
        return regex.substr(at, 2);
      const bool has_name = rest.size() > 1 && is_ascii_letter(rest[0]) && rest[1] == '{';  // \p{L}
      at = has_name ? std::min(regex.find('}', at), regex.size()) : at + 1;
    } else if (regex[at] == '(' && rest[0] == '?' && std::ranges::none_of(kSameGroups, begins)) {
      return regex.substr(at, 3);
    } else if (regex[at] == '}' && rest[0] == '+') {
      return regex.substr(at, 2);
    }
  }
  return std::nullopt;
}

}  // namespace

SearchPattern::SearchPattern(std::string pattern, bool is_regex, const std::string& name)
    : text_(std::move(pattern)) {
  if (!is_regex) return;
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kData, fmt::format("{}: the pattern `{}` {}", name, printable(text_), what),
                "an expression that Oniguruma and ICU read alike: no \\w, \\b or \\h, no flags but (?i:...), "
                "no {1,3}+");
  };
  if (const auto part = ambiguous_part(text_))
    fail(fmt::format("has `{}`, which is not supported", printable(*part)));
  UErrorCode error = U_ZERO_ERROR;
  UParseError place{};
  regex_.reset(icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(text_), kRegexFlags, place, error));
  if (U_FAILURE(error))
    fail(fmt::format("is malformed at character {}: {}", place.offset, u_errorName(error)));
}

void PatternMatcher::start(std::string_view text) {
  byte_ = 0;
  unit_ = 0;
  if (pattern_.regex() == nullptr) return;
  units_ = icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  UErrorCode error = U_ZERO_ERROR;
  if (matcher_ == nullptr) {
    matcher_.reset(pattern_.regex()->matcher(error));
    MTF_CHECK(U_SUCCESS(error), "a matcher: {}", u_errorName(error));
    matcher_->setStackLimit(0, error);  // memory is the limit: a word may have megabytes
  }
  matcher_->reset(units_);
}

bool PatternMatcher::next(std::string_view text, size_t& begin, size_t& end) {
  if (pattern_.regex() == nullptr) {
    begin = text.find(pattern_.text(), byte_);
    byte_ = end = begin + pattern_.text().size();
    return begin != std::string_view::npos;
  }
  UErrorCode error = U_ZERO_ERROR;
  const bool found = matcher_->find(error) != 0;
  MTF_CHECK(U_SUCCESS(error), "the pattern `{}`: {}", pattern_.text(), u_errorName(error));
  if (!found) return false;
  begin = byte_of_unit(text, matcher_->start(error));
  end = byte_of_unit(text, matcher_->end(error));
  return true;
}

/// Returns where the character at a place of UTF-16 is in UTF-8; places must not go back.
size_t PatternMatcher::byte_of_unit(std::string_view text, int32_t unit) {
  while (unit_ < unit) {
    const auto lead = static_cast<unsigned char>(text[byte_]);
    byte_ += lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    unit_ += lead < 0xf0 ? 1 : 2;
  }
  return byte_;
}

}  // namespace mtf
