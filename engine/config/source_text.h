// The text of one YAML file, and places in it. As in yaml-cpp, lines and columns count from 0, and columns
// count bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mtf::config {

/// A byte that belongs to no text.
struct StrayByte {
  Mark place;
  unsigned char byte = 0;
};

class SourceText {
 public:
  SourceText(std::string file, std::string_view text);

  /// Returns line `line` without its newline; empty after the last line.
  std::string_view line(int line) const;
  int lines() const { return static_cast<int>(lines_.size()); }
  /// Returns the part of the line from `column` on.
  std::string_view rest(int line, int column) const;
  /// Returns the place of `length` bytes at `column`. If the line is long, the mark keeps only the part
  /// around them.
  Mark mark(int line, int column, size_t length = 1) const;
  /// Returns the place of the scalar, list or map that begins at `column`; it extends to the end of the value
  /// if that is on the same line.
  Mark value_mark(int line, int column, std::string_view value = {}) const;
  /// Returns the first byte that is not valid UTF-8 or is a control character other than a tab, if there is one.
  std::optional<StrayByte> first_stray_byte() const;
  /// True if the text is UTF-16 with a byte order mark.
  bool is_utf16() const;
  /// True if the quoted text that begins at `column` is closed somewhere.
  bool quote_is_closed(int line, int column) const;
  /// True if the `{` or `[` at `column` is closed somewhere.
  bool bracket_is_closed(int line, int column) const;

 private:
  /// Returns the number of characters of line `line` before byte `column`.
  int characters_before(int line, size_t column) const;

  std::string file_;
  std::vector<std::string> lines_;
  /// The result of the last count of characters: places are requested from left to right, and lines may be
  /// long.
  struct Counted {
    int line = -1;
    size_t byte = 0;
    int characters = 0;
  };
  mutable Counted counted_;
};

}  // namespace mtf::config
