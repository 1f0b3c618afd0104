#include "trainer/metrics/text_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/input_file.h"
#include "data/text/line_reader.h"
#include "engine/base/error.h"
#include "trainer/metrics/unicode.h"

namespace mtf {

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

std::vector<std::string> read_lines(LineSplitter& lines) {
  std::vector<std::string> result;
  TextProblems problems;
  while (const std::optional<std::string_view> line = lines.next()) {
    check_utf8(*line, lines.name(), "line", lines.line(), problems);
    problems.throw_if_any();
    result.emplace_back(strip_right(*line));
  }
  return result;
}

std::vector<std::string> read_lines(const std::string& path, const TextLimit& limit) {
  InputFile file(path, "a text file");
  LineSplitter lines(path, file.reader(), limit);
  return read_lines(lines);
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
