// Compares the metrics of two runs, in metrics.jsonl and evaluate.jsonl, step by step.
//
//   const SeriesComparison training =
//       compare_metrics("runs/one/metrics.jsonl", "runs/mesh/metrics.jsonl", 1e-5);
//   if (training.first) fmt::print("step {}: {}", training.first->step, training.first->values);
//
// Only steps and metrics that both have are compared. Times, speeds and memory are not: `time`, `seconds`,
// `*_seconds`, `*_ms`, `*_per_second`, `mfu`, `*_bytes`. Differences are relative to the larger value; of correlations and
// `*router/min_gap`, which are small differences of numbers up to 1, to at least 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mtf {

struct MetricDifference {
  std::string metric;
  int64_t differing = 0;  ///< number of steps at which it differs by more than the tolerance
  double largest = 0;     ///< largest relative difference over all steps
  int64_t largest_at_step = 0;
};

struct FirstDifference {
  int64_t step = 0;
  std::string metric;
  std::string values;  ///< "0.5312 against 0.5313"
  double relative = 0;
};

/// The comparison of one data set's lines, or of those of training.
struct SeriesComparison {
  std::string dataset;                    ///< empty: training
  int64_t steps = 0;                      ///< number of steps that both have
  int64_t first_step = 0, last_step = 0;  ///< the first and the last of these steps
  int64_t differing = 0;                  ///< how many of these steps differ
  int64_t only_a = 0, only_b = 0;         ///< numbers of steps that only one has
  std::vector<MetricDifference> metrics;  ///< the metrics that both have, in the order of the first file
  std::vector<std::string> metrics_only_a, metrics_only_b;
  std::optional<FirstDifference> first;
};

/// Compares two files metrics.jsonl. `tolerance` is relative; 0 requires equal bits. NaN equals NaN. An
/// incomplete last line, which a killed program has left, is ignored. Throws Error (kData), which names file
/// and line, when a line is no JSON object with a step, or a step occurs twice.
SeriesComparison compare_metrics(const std::string& file_a, const std::string& file_b, double tolerance);

/// Compares two files evaluate.jsonl by data set, in the order of the first file; then come the data sets
/// that only the second file has. If a data set was evaluated several times at a step, the last evaluation
/// counts.
std::vector<SeriesComparison> compare_evaluations(const std::string& file_a, const std::string& file_b,
                                                  double tolerance);

}  // namespace mtf
