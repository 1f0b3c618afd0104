// The text of one YAML file, and places in it. Lines and columns count from 0 here, columns in bytes, as
// yaml-cpp counts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"

namespace mtf::config {

class SourceText {
 public:
  SourceText(std::string file, std::string_view text);

  /// Line `line` without its end; empty past the last one.
  std::string_view line(int line) const;
  int lines() const { return static_cast<int>(lines_.size()); }
  /// The line from `column` on.
  std::string_view rest(int line, int column) const;
  /// `length` bytes from `column` on.
  Mark mark(int line, int column, size_t length = 1) const;
  /// The place of the scalar, list or map that begins at `column`: to its end where that stands on the same
  /// line.
  Mark value_mark(int line, int column, std::string_view value = {}) const;
  /// True when the quoted text that begins at `column` ends somewhere.
  bool quote_is_closed(int line, int column) const;

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

/// Characters (not bytes) of UTF-8 text.
int character_count(std::string_view text);

}  // namespace mtf::config
