// The metrics of a run over its steps, thinned so that a run of any length takes a bounded number of points: a
// point stands for several lines and has the mean, the lowest and the highest value of each metric.
//
//   Curves curves(1000);
//   for (...) curves.add(numbers);
//   curves.json();
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mtf {

class Curves {
 public:
  /// At most `most` points, at least 2, are kept.
  explicit Curves(size_t most) : most_(most) {}

  /// Adds a line of metrics.jsonl or evaluate.jsonl. Values that are not finite are left out and counted.
  void add(const std::vector<std::pair<std::string, double>>& numbers);
  /// Merges neighbouring points until there are at most `most`.
  void thin(size_t most);

  size_t points() const { return points_.size(); }
  /// The value of the newest line; NaN if no line has it.
  double last(std::string_view name) const;

  /// Returns {lines, step: [], time: [], epoch: [], metrics: {NAME: {mean: [], low: [], high: []}}, not_finite:
  /// {NAME: count}}. Numbers have six digits, and null where a point has no value; low and high are absent where
  /// all are equal to the mean.
  nlohmann::ordered_json json() const;

 private:
  struct Range {
    int64_t count = 0;
    double sum = 0, low = 0, high = 0;
    void add(const Range& other);
  };
  /// Successive lines. `values` are by metric.
  struct Point {
    int64_t lines = 0;
    std::vector<Range> values;
  };
  static constexpr size_t kMostMetrics = 200;

  size_t index_of(const std::string& name);
  void merge_pairs();
  nlohmann::ordered_json metric_json(size_t metric) const;

  size_t most_;
  int64_t lines_ = 0;
  int64_t lines_per_point_ = 1;
  std::vector<std::string> names_;
  std::vector<double> last_;
  std::vector<int64_t> not_finite_;
  std::vector<Point> points_;
};

}  // namespace mtf
