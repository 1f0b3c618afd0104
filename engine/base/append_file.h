// AppendFile writes a file that grows by whole blocks: a block is written completely, or the file is
// truncated to where it ended before. keep_ranges() cuts such a file back.
// metrics.jsonl, evaluate.jsonl and TensorBoard's event files are written with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/file.h"

namespace mtf {

class AppendFile {
 public:
  /// Creates the file if it does not exist. Throws Error (kSystem): "PATH: cannot be written: REASON".
  explicit AppendFile(std::string path);

  const std::string& path() const { return path_; }

  /// False if somebody has removed or renamed the file, or put another one in its place.
  bool is_there() const;
  /// Appends `block`, to a new file if !is_there(). Throws Error (kSystem) if it cannot be written completely; the file then
  /// ends where it ended before.
  void write(std::string_view block);

 private:
  void open();

  std::string path_;
  std::optional<File> file_;
};

/// Bytes [begin, end) of a file.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Appends `range` to the ascending `ranges`; a range that begins where the last one ends is merged into it.
void add_range(std::vector<ByteRange>& ranges, ByteRange range);

/// Removes all bytes outside the ascending `ranges`. If only the beginning of the file is kept, the file is
/// truncated; otherwise the ranges are copied to `cut.tmp` beside it, which is synced and renamed. If the
/// process is killed at any moment, the file is either the old or the new one, and the next call removes the
/// copy. Throws Error (kSystem).
void keep_ranges(const std::string& path, const std::vector<ByteRange>& ranges);

/// Throws Error (kSystem): "PATH: cannot be written: REASON", where REASON describes `error`, an error number
/// of the system.
[[noreturn]] void throw_not_written(const std::string& path, int error);

}  // namespace mtf
