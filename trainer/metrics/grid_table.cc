#include "trainer/metrics/grid_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "engine/base/printable.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

/// The additional blanks of a column besides its title, without those of all cells.
constexpr size_t kBesideTitle = 2;

std::vector<std::string> lines_of_cell(std::string_view cell) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= cell.size();) {
    const size_t end = std::min(cell.find('\n', begin), cell.size());
    lines.emplace_back(cell.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Returns the number of characters without colour codes.
size_t visible_width(std::string_view text) {
  std::string visible;
  while (!text.empty()) {
    const size_t code = std::min(text.find("\x1b["), text.size());
    visible += text.substr(0, code);
    text.remove_prefix(code);
    text.remove_prefix(text.empty() ? 0 : std::min(text.find('m'), text.size() - 1) + 1);
  }
  return static_cast<size_t>(character_count(visible));
}

std::vector<size_t> column_widths(const GridTable& table) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.header.size(); ++c) {
    size_t width = visible_width(table.header[c]) + kBesideTitle;
    for (const std::vector<std::string>& row : table.rows) {
      for (const std::string& line : lines_of_cell(strip(row[c])))
        width = std::max(width, visible_width(line));
    }
    widths.push_back(width);
  }
  return widths;
}

/// Returns a line of a cell, aligned, with one blank on either side.
std::string padded(std::string_view line, size_t width, bool first_column) {
  const size_t blanks = width - visible_width(line);
  const size_t left = first_column ? blanks : blanks / 2;
  return fmt::format(" {}{}{} ", std::string(left, ' '), line, std::string(blanks - left, ' '));
}

/// Returns the lines of a row, as many as its highest cell has.
std::vector<std::vector<std::string>> lines_of_row(const std::vector<std::string>& row,
                                                   const std::vector<size_t>& widths) {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (const std::string& cell : row) {
    cells.push_back(lines_of_cell(strip(cell)));
    height = std::max(height, cells.back().size());
  }
  std::vector<std::vector<std::string>> lines(height);
  for (size_t line = 0; line < height; ++line) {
    for (size_t c = 0; c < cells.size(); ++c)
      lines[line].push_back(padded(line < cells[c].size() ? cells[c][line] : "", widths[c], c == 0));
  }
  return lines;
}

std::string rule(const std::vector<size_t>& widths, std::string_view begin, std::string_view fill,
                 std::string_view between, std::string_view end) {
  std::string line(begin);
  for (size_t c = 0; c < widths.size(); ++c) {
    if (c > 0) line += between;
    for (size_t i = 0; i < widths[c] + 2; ++i) line += fill;
  }
  return line.append(end) + "\n";
}

std::string in_latex(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        result.append({'\\', c});
        break;
      case '^':
        result += "\\^{}";
        break;
      case '~':
        result += "\\textasciitilde{}";
        break;
      case '\\':
        result += "\\textbackslash{}";
        break;
      case '<':
      case '>':
        result.append("\\ensuremath{").append(1, c).append("}");
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

std::string fancy_grid(const GridTable& table) {
  const std::vector<size_t> widths = column_widths(table);
  const auto set = [&](const std::vector<std::string>& row) {
    std::string text;
    for (const std::vector<std::string>& line : lines_of_row(row, widths))
      text += fmt::format("│{}│\n", fmt::join(line, "│"));
    return text;
  };
  std::string text = rule(widths, "╒", "═", "╤", "╕") + set(table.header);
  for (size_t r = 0; r < table.rows.size(); ++r) {
    text += r == 0 ? rule(widths, "╞", "═", "╪", "╡") : rule(widths, "├", "─", "┼", "┤");
    text += set(table.rows[r]);
  }
  return text + rule(widths, "╘", "═", "╧", "╛");
}

std::string latex_table(const GridTable& table) {
  const std::vector<size_t> widths = column_widths(table);
  const auto set = [&](const std::vector<std::string>& row) {
    std::vector<std::string> cells = lines_of_row(row, widths).front();
    for (std::string& cell : cells) cell = in_latex(cell);
    return fmt::format("{}\\\\\n", fmt::join(cells, "&"));
  };
  std::string text =
      fmt::format("\\begin{{tabular}}{{r{}}}\n\\toprule\n", std::string(widths.size() - 1, 'c'));
  text += set(table.header) + "\\midrule\n";
  for (const std::vector<std::string>& row : table.rows) text += set(row);
  return text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace mtf
