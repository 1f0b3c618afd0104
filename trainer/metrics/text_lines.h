// The sentences of a text, one a line.
//
//   const std::vector<std::string> lines = read_lines("out.de.gz");
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/line_splitter.h"

namespace mtf {

/// Throws Error (kData) with the number of the first line of `text` that is not UTF-8. `name` is the file's.
void check_utf8(std::string_view text, const std::string& name);

/// Lines of UTF-8 text without the white space at their ends. Only \n ends a line. Throws Error (kData) with
/// the number of the first line that is not UTF-8, and what `lines` throws.
std::vector<std::string> read_lines(LineSplitter& lines);
/// Of a file, plain or gzip. Throws Error (kData) when it cannot be read, too.
std::vector<std::string> read_lines(const std::string& path, const TextLimit& limit);

/// Column c of each line, between tabs; the last column has the rest of the line. Throws Error (kUsage) with
/// the number of the first line that has fewer than `columns`.
std::vector<std::vector<std::string>> split_columns(const std::vector<std::string>& lines, size_t columns,
                                                    const std::string& name);

}  // namespace mtf
