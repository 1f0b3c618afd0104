#include "engine/config/source_text.h"

#include <algorithm>

namespace mtf::config {
namespace {

/// Position after the quote that closes the one at text[0]; npos when the line ends before.
size_t end_of_quoted(std::string_view text) {
  const char quote = text.front();
  for (size_t i = 1; i < text.size(); ++i) {
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

/// Position after the bracket that closes the one at text[0]; npos when the line ends before.
size_t end_of_bracketed(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' ||
        (c == '\'' && i > 0 && (text[i - 1] == ' ' || text[i - 1] == '[' || text[i - 1] == '{'))) {
      const size_t end = end_of_quoted(text.substr(i));
      if (end == std::string_view::npos) return end;
      i += end - 1;
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

int character_count(std::string_view text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

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
  mark.column = character_count(text.substr(0, begin)) + 1;
  mark.length = std::max(1, character_count(text.substr(begin, length)));
  mark.text = text;
  std::replace(mark.text.begin(), mark.text.end(), '\t', ' ');
  return mark;
}

Mark SourceText::value_mark(int line, int column, std::string_view value) const {
  const std::string_view text = rest(line, column);
  if (text.empty()) return mark(line, column);
  size_t length = 0;
  if (text.front() == '"' || text.front() == '\'') {
    length = end_of_quoted(text);
  } else if (text.front() == '{' || text.front() == '[') {
    length = end_of_bracketed(text);
  } else if (!value.empty() && text.starts_with(value)) {
    length = value.size();
  } else {
    length = std::min(text.find(": "), text.find_first_of("\r"));
    if (length == std::string_view::npos && text.ends_with(':')) length = text.size() - 1;
  }
  if (length == std::string_view::npos) length = without_trailing_blanks(text).size();
  return mark(line, column, length);
}

bool SourceText::quote_is_closed(int line, int column) const {
  std::string text(rest(line, column));
  while (end_of_quoted(text) == std::string_view::npos) {
    if (++line >= lines()) return false;
    text += '\n';
    text += this->line(line);
  }
  return true;
}

}  // namespace mtf::config
