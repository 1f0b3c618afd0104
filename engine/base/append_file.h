// A file that grows by whole blocks: each is written in one system call, or nothing of it stays in the file.
// And cutting such a file back. The base of metrics.jsonl, evaluate.jsonl and TensorBoard's event files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file.h"

namespace mtf {

class AppendFile {
 public:
  /// Creates the file when it is missing. Throws Error (kSystem): "PATH: cannot be written: REASON".
  explicit AppendFile(std::string path);

  const std::string& path() const { return path_; }

  /// Throws Error (kSystem) when the block cannot be written whole; the file then ends as before.
  void write(std::string_view block);

 private:
  std::string path_;
  File file_;
};

/// Bytes [begin, end) of a file.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Appends a range to ascending `ranges`; ranges that touch become one.
void add_range(std::vector<ByteRange>& ranges, ByteRange range);

/// Removes all bytes outside the ascending `ranges`. A beginning alone is kept by truncating the file;
/// otherwise what is kept is copied to `cut.tmp` beside it, synced and renamed. Killed at any moment, the
/// file is the old or the new one, and the next call removes the copy. Throws Error (kSystem).
void keep_ranges(const std::string& path, const std::vector<ByteRange>& ranges);

/// Throws Error (kSystem): "PATH: cannot be written: REASON", of an error number of the system.
[[noreturn]] void throw_not_written(const std::string& path, int error);

}  // namespace mtf
