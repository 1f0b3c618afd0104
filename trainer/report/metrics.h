// The files of numbers in a run's directory: metrics.jsonl, evaluate.jsonl. One JSON object a line, written
// at once; a run that continues cuts them back to its checkpoint first.
//
//   cut_json_lines("runs/mnist/metrics.jsonl", 1000);   // the restored step
//   JsonLines metrics("runs/mnist/metrics.jsonl");
//   metrics.write({{"step", 1001}, {"loss", 0.31}});
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/append_file.h"

namespace mtf {

/// Names and numbers of a line. Whole numbers are written without a fraction; others so that they read back
/// as the same double; what is not finite as null.
using Metrics = std::vector<std::pair<std::string, double>>;

class JsonLines {
 public:
  /// Appends to the file, which is created when it is missing. Throws Error (kSystem) with the system's
  /// reason.
  explicit JsonLines(std::string path);

  /// `texts` first, then `numbers`, in this order. The line is written whole, in one system call, or not at
  /// all: throws Error (kSystem) when it cannot be written.
  void write(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts = {});

 private:
  AppendFile file_;
};

/// One line of metrics.jsonl or evaluate.jsonl, without the newline.
std::string json_line(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts);

/// Removes the lines whose "step" is greater than `step`, and lines that are torn. A missing file has none.
/// Killed at any moment, it leaves a file that a second call mends. Throws Error (kSystem).
void cut_json_lines(const std::string& path, int64_t step);

}  // namespace mtf
