// Tables of texts as the Python package `tabulate`, with which sacreBLEU prints, sets them: the first column
// to the right, the others in the middle.
//
//   fancy_grid({{"System", "BLEU"}, {{"a", "62.3"}, {"b", "59.5"}}})
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// Cells may have several lines, and colours (ANSI codes), which take no room.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the header
};

/// With lines of Unicode around the cells. Ends with a newline.
std::string fancy_grid(const TextTable& table);

/// For LaTeX with the package booktabs. Cells have one line. Ends with a newline.
std::string latex_table(const TextTable& table);

}  // namespace mtf
