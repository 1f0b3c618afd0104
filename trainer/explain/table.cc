#include "trainer/explain/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trainer/explain/name_pattern.h"

namespace mtf {
namespace {

/// Returns the number of characters (code points) of a UTF-8 text.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t width, TextTable::Align align) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return align == TextTable::kLeft ? text + space : space + text;
}

}  // namespace

void TextTable::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), false});
}

void TextTable::line(std::string text) { rows_.push_back({{std::move(text)}, true}); }

void TextTable::fold(const std::vector<size_t>& names, size_t count) {
  std::map<std::string, std::vector<size_t>> alike;  // rows, by their cells without the numbers in names
  int part = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i].line) {
      ++part;
      continue;
    }
    std::string key = std::to_string(part);
    for (size_t column = 0; column < columns_.size(); ++column) {
      const std::string& cell = rows_[i].cells[column];
      key += '\n';
      if (std::find(names.begin(), names.end(), column) == names.end()) {
        key += cell;
      } else {
        key += without_numbers(cell);
      }
    }
    alike[key].push_back(i);
  }
  std::vector<bool> folded(rows_.size(), false);
  for (const auto& [key, members] : alike) {
    if (members.size() < kFewestFolded) continue;
    std::vector<std::string>& cells = rows_[members[0]].cells;
    for (size_t column : names) {
      std::vector<std::string> all;
      for (size_t member : members) all.push_back(rows_[member].cells[column]);
      cells[column] = name_pattern(all);
    }
    cells[count] = fmt::format("x {}", members.size());
    for (size_t k = 1; k < members.size(); ++k) folded[members[k]] = true;
  }
  std::vector<Row> kept;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!folded[i]) kept.push_back(std::move(rows_[i]));
  }
  rows_ = std::move(kept);
}

std::string TextTable::to_string() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const Row& row : rows_) {
    for (size_t i = 0; i < columns_.size() && !row.line; ++i)
      widths[i] = std::max(widths[i], width_of(row.cells[i]));
  }
  const auto text_of = [&](const auto& cell) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      line += "  " + padded(cell(i), std::max(widths[i], width_of(columns_[i].title)), columns_[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  };
  std::string text = text_of([&](size_t i) { return columns_[i].title; });
  if (text == "\n") text.clear();
  for (const Row& row : rows_)
    text += row.line ? "  " + row.cells[0] + "\n" : text_of([&](size_t i) { return row.cells[i]; });
  return text;
}

}  // namespace mtf
