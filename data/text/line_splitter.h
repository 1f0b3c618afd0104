// Splits the bytes of a file or pipe into lines of bounded length.
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

/// The largest size of one text: a line, a document of several lines, or a record. Without it a highly
/// compressed file, or one that is no text, could fill the machine's memory.
struct TextLimit {
  static constexpr int64_t default_bytes = int64_t{64} << 20;

  int64_t bytes = default_bytes;
  std::string_view setting = "data.max_line_bytes";  ///< the option that raises the limit, for messages
  int64_t* longest = nullptr;                        ///< becomes the largest size that was allowed

  /// Tells whether a text, or its beginning, may have this size.
  bool allows(uint64_t size) const;
  /// Throws Error (kData). `place` names the text that is too long: "FILE: line 3".
  [[noreturn]] void refuse(const std::string& place) const;
};

/// Waits for input and reads at most `size` bytes into `buffer`. Returns their number, which is 0 at the end.
using ReadBytes = std::function<size_t(char* buffer, size_t size)>;

/// Returns a function that reads an open file, pipe or terminal. It throws Error (kSystem), which names
/// `name`, when the read fails.
ReadBytes read_from(int descriptor, const std::string& name);

class LineSplitter {
 public:
  /// `name` names the input in messages.
  LineSplitter(std::string name, ReadBytes read, const TextLimit& limit);

  /// Returns the next line without its "\n" or "\r\n", the first one without a byte order mark; nullopt at the end. It is
  /// valid until the next call.
  /// Throws Error (kData) as soon as the line exceeds the limit, and what `read` throws.
  std::optional<std::string_view> next();

  const std::string& name() const { return name_; }
  /// The number of the line that was returned last; the first is 1.
  int64_t line() const { return line_; }

 private:
  bool refill();

  std::string name_;
  ReadBytes read_;
  TextLimit limit_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  ///< buffer_[begin_, end_): the bytes that were read but not returned
  size_t end_ = 0;
  bool ended_ = false;
  int64_t line_ = 0;
};

}  // namespace mtf
