// The sentences of a text, one a line.
//
//   const std::vector<std::string> lines = read_lines("out.de.gz");
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf {

std::string read_standard_input();

/// Throws Error (kData) with the number of the first line of `text` that is not UTF-8. `name` is the file's.
void check_utf8(std::string_view text, const std::string& name);

/// Lines of UTF-8 text without the white space at their ends. Only \n ends a line. Throws as check_utf8 does.
std::vector<std::string> lines_of(std::string_view text, const std::string& name);
/// Of a file, plain or gzip. Throws Error (kData) when it cannot be read, too.
std::vector<std::string> read_lines(const std::string& path);

/// Column c of each line, between tabs; the last column has the rest of the line. Throws Error (kUsage) with
/// the number of the first line that has fewer than `columns`.
std::vector<std::vector<std::string>> split_columns(const std::vector<std::string>& lines, size_t columns,
                                                    const std::string& name);

}  // namespace mtf
