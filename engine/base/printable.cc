#include "engine/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mtf {
namespace {

unsigned char byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

/// True for ASCII and Latin-1 control characters (the latter have two bytes in UTF-8).
bool is_control(std::string_view character) {
  const unsigned char first = byte_at(character, 0);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(character, 1) < 0xa0);
}

std::string escaped(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  if (bytes == "\r") return "\\r";
  std::string result;
  for (const char c : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return result;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

/// Returns the Unicode code point of the first character of `text`.
char32_t code_point(std::string_view text) {
  const size_t length = utf8_length(text);
  if (length < 2) return byte_at(text, 0);
  char32_t point = byte_at(text, 0) & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) point = point << 6 | (byte_at(text, i) & 0x3fu);
  return point;
}

using Ranges = std::array<std::pair<char32_t, char32_t>, 12>;
/// Unicode blocks of wide characters (East Asian Width W and F), and of combining ones.
constexpr Ranges kWide = {{{0x1100, 0x115f},
                           {0x2e80, 0x303e},
                           {0x3041, 0xa4cf},
                           {0xa960, 0xa97f},
                           {0xac00, 0xd7a3},
                           {0xf900, 0xfaff},
                           {0xfe30, 0xfe6f},
                           {0xff00, 0xff60},
                           {0xffe0, 0xffe6},
                           {0x1f300, 0x1f64f},
                           {0x1f900, 0x1f9ff},
                           {0x20000, 0x3fffd}}};
constexpr Ranges kCombining = {
    {{0x300, 0x36f}, {0x591, 0x5bd}, {0x64b, 0x65f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};

bool is_in(const Ranges& ranges, char32_t point) {
  return std::ranges::any_of(ranges, [point](const auto& range) {
    return range.first <= point && point <= range.second && point > 0;
  });
}

/// Returns `text` with `replace(bytes)` in place of each part that cannot be printed.
template <class Replace>
std::string replaced(std::string_view text, const Replace& replace) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view bytes = text.substr(0, length > 0 ? length : 1);
    result += length == 0 || is_control(bytes) ? replace(bytes) : std::string(bytes);
    text.remove_prefix(bytes.size());
  }
  return result;
}

/// The number of characters that a message shows of a quoted part, and of a word such as the path of a file.
constexpr int kLongestQuote = 200, kLongestWord = 500;

/// Returns about `most` characters of a longer text: its front and its end.
std::string without_middle(std::string_view text, int most) {
  constexpr int kEnd = 20;
  const int count = character_count(text);
  if (count <= most) return std::string(text);
  const std::string_view front = text.substr(0, byte_of_character(text, most - kEnd));
  return fmt::format("{}…{}", front, text.substr(byte_of_character(text, count - kEnd)));
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char first = byte_at(text, 0), second = byte_at(text, 1);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0u) != 0x80u) return 0;
  }
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return too_long || no_character ? 0 : length;
}

std::string printable(std::string_view text) { return replaced(text, escaped); }

std::string printable_lines(std::string_view text) {
  return replaced(text,
                  [](std::string_view bytes) { return bytes == "\n" ? std::string(bytes) : escaped(bytes); });
}

std::string printable_columns(std::string_view line) {
  return replaced(line, [](std::string_view) { return std::string("\uFFFD"); });
}

int character_count(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

size_t byte_of_character(std::string_view text, int index) {
  size_t byte = 0;
  for (; index > 0 && byte < text.size(); --index) {
    do {
      ++byte;
    } while (byte < text.size() && is_continuation(text[byte]));
  }
  return byte;
}

int display_width(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size(); at += std::max<size_t>(1, utf8_length(text.substr(at)))) {
    const char32_t point = code_point(text.substr(at));
    width += is_in(kWide, point) ? 2 : is_in(kCombining, point) ? 0 : 1;
  }
  return width;
}

std::string shortened(std::string_view text) {
  constexpr char kQuote = '`';
  std::string result;
  while (!text.empty()) {
    const size_t close = text.front() == kQuote ? text.find(kQuote, 1) : std::string_view::npos;
    const bool quoted = close != std::string_view::npos;
    const bool blank = text.front() == ' ';
    const size_t word = std::min(text.find_first_of("` ", 1), text.size());
    const size_t end = quoted ? close + 1 : blank ? 1 : word;
    result += without_middle(text.substr(0, end), quoted ? kLongestQuote : kLongestWord);
    text.remove_prefix(end);
  }
  return result;
}

std::string list_names(const std::vector<std::string>& names, size_t most) {
  const size_t shown = std::min(names.size(), most);
  const std::string text = fmt::format("{}", fmt::join(names.data(), names.data() + shown, ", "));
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

}  // namespace mtf
