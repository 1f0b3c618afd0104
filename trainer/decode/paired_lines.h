// The lines that infer and score work on, some at a time and the same in all processes: process 0 reads them.
//
//   PairedLines lines(communicator, {.first = "in.txt", .second = "prefix.txt", .hint = "..."});
//   for (LinePairs some = lines.take(1024); !some.empty(); some = lines.take(1024)) ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "trainer/decode/line_stream.h"

namespace mtf {

struct LinePair {
  std::string first;
  std::string second;  ///< the same line of the second file; empty without one
};
using LinePairs = std::vector<LinePair>;

/// Two files whose lines belong together.
struct LineFiles {
  std::string first;
  std::string second;    ///< empty: there is none
  std::string hint;      ///< for the message that they have different numbers of lines
  TextLimit limit = {};  ///< of a line
};

class PairedLines {
 public:
  /// Opens the files in process 0. Throws Error (kData) when one cannot be opened.
  PairedLines(Communicator& communicator, const LineFiles& files);

  /// Waits for lines, then takes those that are there, at most `most`; none at the end. All processes call it
  /// and get the same. While process 0 waits for its input it tells the others so, whatever time it takes.
  /// Throws Error in process 0 when the files cannot be read on or have different numbers of lines.
  LinePairs take(size_t most);

  /// In process 0, before or between calls of take(): tells the others, which are there, that it has work
  /// that may last.
  void others_wait() const;

 private:
  LinePairs read(size_t most);
  [[noreturn]] void lines_differ(std::string_view how) const;

  Communicator& communicator_;
  LineFiles files_;
  std::optional<LineStream> first_, second_;
};

}  // namespace mtf
