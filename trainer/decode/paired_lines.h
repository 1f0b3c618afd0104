// The input lines of infer and score, or the texts of a source. Process 0 reads them and sends them to all other processes.
//
//   PairedLines lines(communicator, {.first = "in.txt", .second = "prefix.txt", .hint = "..."});
//   for (LinePairs some = lines.take(1024); !some.empty(); some = lines.take(1024)) ...
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "trainer/decode/line_stream.h"
#include "trainer/decode/text_pairs.h"

namespace mtf {

/// One file, or two files whose lines correspond.
struct LineFiles {
  std::string first;
  std::string second;    ///< empty if there is no second file
  std::string hint;      ///< the hint of the error that the numbers of lines differ
  TextLimit limit = {};  ///< largest size of a line
  /// A source of texts in place of the first file, or of both if it gives both sides.
  std::optional<TextColumns> texts = {};
};

/// The number of batches whose lines are taken, and sorted by length, together.
inline constexpr size_t kBatchesTogether = 16;

/// Reads the files to their ends, but no streams. Throws Error (kData) with all lines of one that are not UTF-8, or all
/// examples of a source that cannot be read, and where the numbers of lines of both files differ.
void check_lines(const LineFiles& files);

class PairedLines {
 public:
  /// Opens the files in process 0. Throws Error (kData) there when one cannot be opened.
  PairedLines(Communicator& communicator, const LineFiles& files);

  /// Waits for lines, then returns the available pairs, at most `most`; an empty vector at the end. The call
  /// is collective and returns the same pairs everywhere. While process 0 waits for input it sends messages,
  /// so that the other processes do not time out. Throws Error in process 0 when the files cannot be read or
  /// their numbers of lines differ.
  LinePairs take(size_t most);

  /// Process 0 may call it before or between its calls of take(), to tell the other processes, which wait in
  /// take(), that they must wait longer.
  void others_wait() const;

 private:
  LinePairs read(size_t most);

  Communicator& communicator_;
  LineFiles files_;
  std::optional<LineStream> first_, second_;
  std::optional<TextPairs> texts_;
};

}  // namespace mtf
