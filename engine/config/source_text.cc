#include "engine/config/source_text.h"

#include <algorithm>

#include "engine/base/printable.h"

namespace mtf::config {
namespace {

/// Each value keeps its line, or this many bytes of a longer one around its place.
constexpr size_t kLongestLineKept = 400;

/// Returns the position after the `quote` that closes a text whose content begins at text[begin]; npos if the
/// line does not have it.
size_t end_of_quoted(std::string_view text, char quote, size_t begin) {
  for (size_t i = begin; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '\'' && i + 1 < text.size() && text[i + 1] == '\'') {
        ++i;
      } else {
        return i + 1;
      }
    }
  }
  return std::string_view::npos;
}

/// True if a quoted text begins at text[i]; an apostrophe within a word does not begin one.
bool opens_quote(std::string_view text, size_t i) {
  const bool at_front = i == 0 || text[i - 1] == ' ' || text[i - 1] == '[' || text[i - 1] == '{';
  return text[i] == '"' || (text[i] == '\'' && at_front);
}

/// Returns the position after the bracket that closes the one at text[0]; npos if the line does not have it.
size_t end_of_bracketed(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (opens_quote(text, i)) {
      const size_t end = end_of_quoted(text, c, i + 1);
      if (end == std::string_view::npos) return end;
      i = end - 1;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::string_view without_trailing_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r");
  return last == std::string_view::npos ? std::string_view{} : text.substr(0, last + 1);
}

}  // namespace

SourceText::SourceText(std::string file, std::string_view text) : file_(std::move(file)) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines_.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string_view SourceText::line(int line) const {
  return line >= 0 && line < lines() ? std::string_view(lines_[line]) : std::string_view{};
}

std::string_view SourceText::rest(int line, int column) const {
  const std::string_view text = this->line(line);
  return text.substr(std::min(static_cast<size_t>(std::max(column, 0)), text.size()));
}

Mark SourceText::mark(int line, int column, size_t length) const {
  const std::string_view text = this->line(line);
  const size_t begin = text.size() - rest(line, column).size();
  Mark mark;
  mark.file = file_;
  mark.line = line + 1;
  mark.column = characters_before(line, begin) + 1;
  mark.length = std::max(1, character_count(text.substr(begin, std::min(length, kLongestLineKept))));
  if (text.size() <= kLongestLineKept) {
    mark.text = text;
  } else {
    size_t first = begin - std::min(begin, kLongestLineKept / 2);
    size_t end = std::min(first + kLongestLineKept, text.size());
    while (first < begin && utf8_length(text.substr(first)) == 0) ++first;
    while (end > begin && end < text.size() && utf8_length(text.substr(end)) == 0) --end;
    mark.text = text.substr(first, end - first);
    mark.text_column = mark.column - character_count(text.substr(first, begin - first));
  }
  std::replace(mark.text.begin(), mark.text.end(), '\t', ' ');
  return mark;
}

int SourceText::characters_before(int line, size_t column) const {
  if (counted_.line != line || counted_.byte > column) counted_ = {line, 0, 0};
  counted_.characters += character_count(this->line(line).substr(counted_.byte, column - counted_.byte));
  counted_.byte = column;
  return counted_.characters;
}

Mark SourceText::value_mark(int line, int column, std::string_view value) const {
  const std::string_view text = rest(line, column).substr(0, kLongestLineKept);
  if (text.empty()) return mark(line, column);
  size_t length = 0;
  if (text.front() == '"' || text.front() == '\'') {
    length = end_of_quoted(text, text.front(), 1);
  } else if (text.front() == '{' || text.front() == '[') {
    length = end_of_bracketed(text);
  } else if (!value.empty() && rest(line, column).starts_with(value)) {
    length = value.size();
  } else {
    length = std::min(text.find(": "), text.find_first_of("\r"));
    if (length == std::string_view::npos && text.ends_with(':')) length = text.size() - 1;
  }
  if (length == std::string_view::npos) length = without_trailing_blanks(text).size();
  return mark(line, column, length);
}

std::optional<StrayByte> SourceText::first_stray_byte() const {
  for (int line = 0; line < lines(); ++line) {
    const std::string_view text = this->line(line);
    for (size_t at = 0; at < text.size();) {
      const size_t length = utf8_length(text.substr(at));
      const auto byte = static_cast<unsigned char>(text[at]);
      if (length == 0 || (byte < 0x20 && byte != '\t') || byte == 0x7f)
        return StrayByte{mark(line, static_cast<int>(at)), byte};
      at += length;
    }
  }
  return std::nullopt;
}

bool SourceText::is_utf16() const {
  return line(0).starts_with("\xFF\xFE") || line(0).starts_with("\xFE\xFF");
}

bool SourceText::quote_is_closed(int line, int column) const {
  const std::string_view text = rest(line, column);
  size_t end = end_of_quoted(text, text.front(), 1);
  while (end == std::string_view::npos && ++line < lines())
    end = end_of_quoted(this->line(line), text.front(), 0);
  return end != std::string_view::npos;
}

bool SourceText::bracket_is_closed(int line, int column) const {
  int depth = 0;
  char quote = '\0';
  for (std::string_view text = rest(line, column); line < lines(); text = this->line(++line)) {
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != '\0') {
        const size_t end = end_of_quoted(text, quote, i);
        if (end == std::string_view::npos) break;
        i = end - 1;
        quote = '\0';
      } else if (c == '#' && (i == 0 || text[i - 1] == ' ')) {
        break;
      } else if (opens_quote(text, i)) {
        quote = c;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace mtf::config
