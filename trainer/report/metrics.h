// Writes the files metrics.jsonl and evaluate.jsonl in a run's directory. Each line is a JSON object and is
// written immediately. A run that resumes first removes the lines after its checkpoint.
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

/// The names and numbers of a line. Integers are written without a fraction, other numbers so that they are
/// read back as the same double, and values that are not finite as null.
using Metrics = std::vector<std::pair<std::string, double>>;

/// Numbers that are a list in a line, such as the loads of experts.
struct MetricList {
  std::string name;
  std::vector<double> mean;  ///< over the layers that report such a list: what the line has
  std::vector<double> all;   ///< those of all layers, one after the other
};
/// `values`: lists of `entries` each, one after the other.
MetricList metric_list(std::string name, std::vector<double> values, int64_t entries);

class JsonLines {
 public:
  /// Opens the file for appending and creates it if it is missing. Throws Error (kSystem) with the system's
  /// reason.
  explicit JsonLines(std::string path);

  /// Writes a line with `texts` first, then `numbers`, then `lists`, in one system call. Throws Error (kSystem) when that
  /// fails.
  void write(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts = {},
             const std::vector<MetricList>& lists = {});

 private:
  AppendFile file_;
};

/// Returns one line of metrics.jsonl or evaluate.jsonl, without the newline.
std::string json_line(const Metrics& numbers, const std::vector<std::pair<std::string, std::string>>& texts,
                      const std::vector<MetricList>& lists = {});

/// Removes lines whose "step" is greater than `step`, and incomplete lines. A missing file is ignored. If it
/// is killed, a second call repairs the file. Throws Error (kSystem).
void cut_json_lines(const std::string& path, int64_t step);

}  // namespace mtf
