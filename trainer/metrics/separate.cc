#include "trainer/metrics/separate.h"

#include <algorithm>
#include <array>

#include "engine/base/replace_all.h"
#include "trainer/metrics/rewrite_pairs.h"

namespace mtf {
namespace {

/// All ASCII punctuation and symbols except ' , - and .
constexpr std::array<bool, 256> kSeparated = [] {
  std::array<bool, 256> separated{};
  for (const char c : std::string_view("!\"#$%&()*+/:;<=>?@[\\]^_`{|}~"))
    separated[static_cast<size_t>(c)] = true;
  return separated;
}();

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_period(char c) { return c == '.' || c == ','; }

void append_apart(std::string& result, char c) {
  const std::array<char, 3> apart = {' ', c, ' '};
  result.append(apart.data(), apart.size());
}

}  // namespace

std::string separate_symbols(std::string_view text) {
  std::string result;
  result.reserve(2 * text.size());
  size_t done = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!kSeparated[static_cast<unsigned char>(text[i])]) continue;
    result.append(text, done, i - done);
    append_apart(result, text[i]);
    done = i + 1;
  }
  return result.append(text, done);
}

/// The rules concern only ASCII characters, so working on bytes is correct: all bytes of other characters
/// differ from them.
std::string separate_periods(std::string_view text) {
  if (std::ranges::none_of(text, [](char c) { return is_period(c) || c == '-'; })) return std::string(text);
  const auto second_apart = [](std::string& output, char a, char b) {
    output += a;
    append_apart(output, b);
  };
  const auto first_apart = [](std::string& output, char a, char b) {
    append_apart(output, a);
    output += b;
  };
  std::string result = rewrite_pairs<std::string>(
      text, [](char a, char b) { return is_period(b) && !is_digit(a); }, second_apart);
  result = rewrite_pairs<std::string>(
      result, [](char a, char b) { return is_period(a) && !is_digit(b); }, first_apart);
  return rewrite_pairs<std::string>(
      result, [](char a, char b) { return b == '-' && is_digit(a); }, second_apart);
}

void unescape(std::string& text) {
  if (text.find('&') == std::string::npos) return;
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
}

}  // namespace mtf
