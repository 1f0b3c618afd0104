// Formats tables like the Python package `tabulate`, which sacreBLEU uses: the first column is right-aligned,
// the others are centred.
//
//   fancy_grid({{"System", "BLEU"}, {{"a", "62.3"}, {"b", "59.5"}}})
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// A table of texts. Cells may have several lines and colours (ANSI codes), which have no width.
struct GridTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< each row is as long as the header
};

/// Returns the table with Unicode box lines around the cells; ends with a newline.
std::string fancy_grid(const GridTable& table);

/// Returns the table for LaTeX with the package booktabs; ends with a newline. Cells must have one line.
std::string latex_table(const GridTable& table);

}  // namespace mtf
