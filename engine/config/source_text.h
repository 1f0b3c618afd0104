// The text of one YAML file, and places in it. Lines and columns count from 0 here, columns in bytes, as
// yaml-cpp counts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mtf::config {

class SourceText {
 public:
  SourceText(std::string file, std::string_view text);

  /// Line `line` without its end; empty past the last one.
  std::string_view line(int line) const;
  int lines() const { return static_cast<int>(lines_.size()); }
  /// The line from `column` on.
  std::string_view rest(int line, int column) const;
  /// `length` bytes from `column` on. Of a long line the mark keeps what is near.
  Mark mark(int line, int column, size_t length = 1) const;
  /// The place of the scalar, list or map that begins at `column`: to its end where that stands on the same
  /// line.
  Mark value_mark(int line, int column, std::string_view value = {}) const;
  /// The place of the first byte that is no UTF-8 or a control character other than a tab, if there is one.
  std::optional<Mark> first_no_text() const;
  /// True when the text is in UTF-16 with a byte order mark.
  bool is_utf16() const;
  /// True when the quoted text that begins at `column` ends somewhere.
  bool quote_is_closed(int line, int column) const;
  /// True when the `{` or `[` at `column` is closed somewhere.
  bool bracket_is_closed(int line, int column) const;

 private:
  /// Characters of line `line` in front of byte `column`.
  int characters_before(int line, size_t column) const;

  std::string file_;
  std::vector<std::string> lines_;
  /// Where characters were counted last: places are asked for from left to right, and lines may be long.
  struct Counted {
    int line = -1;
    size_t byte = 0;
    int characters = 0;
  };
  mutable Counted counted_;
};

}  // namespace mtf::config
