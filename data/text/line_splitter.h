// Cuts bytes, as a file or a pipe gives them, into lines of bounded length.
//
//   LineSplitter lines("standard input", read_from(STDIN_FILENO, "standard input"), {});
//   while (const std::optional<std::string_view> line = lines.next()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// The most bytes of one text: of a line, of a document of several lines, or of a record. What compresses
/// well or is no text at all would take the memory of the machine otherwise.
struct TextLimit {
  static constexpr int64_t default_bytes = int64_t{64} << 20;

  int64_t bytes = default_bytes;
  std::string_view setting = "data.max_line_bytes";  ///< what raises it: for messages

  bool allows(uint64_t size) const { return size <= static_cast<uint64_t>(bytes); }
  /// Throws Error (kData). `place`: of the text that is too long, "FILE: line 3".
  [[noreturn]] void refuse(const std::string& place) const;
};

/// Puts bytes that are there, at most `size`, into `buffer`, waiting for the first; returns their number, 0
/// at the end.
using ReadBytes = std::function<size_t(char* buffer, size_t size)>;

/// Reads an open file, pipe or terminal. Throws Error (kSystem) with `name` when the system cannot read.
ReadBytes read_from(int descriptor, const std::string& name);

class LineSplitter {
 public:
  /// `name`: what is read, for messages.
  LineSplitter(std::string name, ReadBytes read, const TextLimit& limit);

  /// The next line, valid until the next call; none at the end. It ends with "\n", "\r\n" or the end of the
  /// bytes, which are not part of it. Throws Error: kData when it is longer than the limit, as soon as so
  /// many bytes were read; what `read` throws.
  std::optional<std::string_view> next();

  const std::string& name() const { return name_; }
  /// Number of the line returned last; the first is 1.
  int64_t line() const { return line_; }

 private:
  bool refill();

  std::string name_;
  ReadBytes read_;
  TextLimit limit_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  ///< of what has not been returned
  size_t end_ = 0;    ///< of what was read
  bool ended_ = false;
  int64_t line_ = 0;
};

}  // namespace mtf
