// The files of numbers in a run's directory: metrics.jsonl, evaluate.jsonl. One JSON object a line, written
// at once.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace mtf {

/// A number of a line. Whole numbers are written without a fraction; others so that they read back as the
/// same double; what is not finite as null.
using Metrics = std::vector<std::pair<std::string, double>>;

class JsonLines {
 public:
  /// Creates or empties the file. Throws Error (kSystem) with the system's reason.
  explicit JsonLines(std::string path);

  /// `texts` first, then `numbers`, in this order. Throws Error (kSystem) when the line cannot be written.
  void write(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts = {});

 private:
  std::string path_;
  std::ofstream file_;
};

/// One line of metrics.jsonl or evaluate.jsonl, without the newline.
std::string json_line(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts);

}  // namespace mtf
