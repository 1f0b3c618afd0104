#include "data/metrics/text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "data/input_file.h"
#include "data/metrics/unicode.h"
#include "data/text/line_reader.h"
#include "engine/core/error.h"

namespace mtf {

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void check_utf8(std::string_view text, const std::string& name) {
  const std::optional<size_t> invalid = first_invalid_byte(text);
  if (!invalid) return;
  const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(*invalid);
  const int64_t number = std::count(begin, end, '\n') + 1;
  const size_t line = text.substr(0, *invalid).rfind('\n') + 1;
  TextProblems problems;
  check_utf8(text.substr(line, text.find('\n', line) - line), name, "line", number, problems);
  problems.throw_if_any();
}

std::vector<std::string> lines_of(std::string_view text, const std::string& name) {
  check_utf8(text, name);
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(strip_right(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> read_lines(const std::string& path) {
  return lines_of(read_file(path, "a text file"), path);
}

std::vector<std::vector<std::string>> split_columns(const std::vector<std::string>& lines, size_t columns,
                                                    const std::string& name) {
  std::vector<std::vector<std::string>> result(columns);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view rest = lines[i];
    for (size_t column = 0; column < columns; ++column) {
      const bool last = column + 1 == columns;
      const size_t end = last ? rest.size() : rest.find('\t');
      if (end == std::string_view::npos) {
        throw Error(ErrorKind::kUsage,
                    fmt::format("{}: line {} has {} columns, not {}", name, i + 1, column + 1, columns),
                    "one tab between two references");
      }
      result[column].emplace_back(rest.substr(0, end));
      rest.remove_prefix(last ? end : end + 1);
    }
  }
  return result;
}

}  // namespace mtf
