// Reads files of JSON objects, one a line, that may be large, that a running program may be appending to, and that
// may be damaged: memory is bounded, and lines that are no such object are skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mtf {

/// Calls `use` with each line that ends in a newline and is not longer than `longest` bytes; longer ones are
/// skipped. A file that cannot be read has no lines.
void for_each_line(const std::string& path, size_t longest, const std::function<void(std::string_view)>& use);

/// The numbers and texts of a flat JSON object; null is NaN.
struct FlatObject {
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::string>> texts;

  /// The number of this name, or `otherwise`.
  double number(std::string_view name, double otherwise) const;
  /// The text of this name; empty if there is none.
  const std::string& text(std::string_view name) const;
};

/// Parses `line` into `object`, whose memory is used again. False if it is no JSON object. Lists and objects in
/// it are left out.
bool parse_flat(std::string_view line, FlatObject& object);

}  // namespace mtf
