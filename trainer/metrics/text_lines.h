// Reads texts with one sentence per line.
//
//   const std::vector<std::string> lines = read_lines("out.de.gz", {});
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/line_splitter.h"

namespace mtf {

/// Throws Error (kData) with the number of the first line of `text` that is not UTF-8. `name` is the name of
/// the file.
void check_utf8(std::string_view text, const std::string& name);

/// Returns the lines without white space at their ends. Throws Error (kData) with the number of the first
/// line that is not UTF-8, and what `lines` throws.
std::vector<std::string> read_lines(LineSplitter& lines);
/// Reads the lines of a file, plain or gzip. Also throws Error (kData) when the file cannot be opened.
std::vector<std::string> read_lines(const std::string& path, const TextLimit& limit);

/// Splits lines at tabs; result[c] is column c of all lines, and the last column is the rest of the line.
/// Throws Error (kUsage) with the number of the first line that has fewer than `columns` columns.
std::vector<std::vector<std::string>> split_columns(const std::vector<std::string>& lines, size_t columns,
                                                    const std::string& name);

}  // namespace mtf
