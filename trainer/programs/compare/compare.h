// The program `mtf-compare RUN_A RUN_B`: reports whether two runs differ, and where they differ first.
//
//   const Comparison comparison = compare({.a = "runs/one", .b = "runs/mesh", .tolerance = 1e-5});
//   fmt::print("{}", report(comparison));
//   return comparison.differs() ? 1 : 0;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/programs/compare/config_differences.h"
#include "trainer/programs/compare/metric_series.h"
#include "trainer/programs/compare/tensors.h"

namespace mtf {

struct CompareOptions {
  bool help = false;
  std::string a = {};    ///< directory of a run or of a checkpoint, or a safetensors file
  std::string b = {};    ///< the run, checkpoint or file with which `a` is compared
  double tolerance = 0;  ///< relative; 0: equal bit for bit
  /// The parts that are requested. Only these are compared, and it is an error if one cannot be compared. If
  /// none is requested, all parts that both have are compared.
  bool config = false, metrics = false, tensors = false;

  bool all() const { return !config && !metrics && !tensors; }
};

/// The result of a comparison. Parts that were not requested or cannot be compared are empty; `notes` says
/// why.
struct Comparison {
  CompareOptions options;
  std::optional<std::vector<ConfigDifference>> config;
  std::optional<SeriesComparison> metrics;
  std::vector<SeriesComparison> evaluations;
  /// The step of the newest checkpoint that both have; nullopt when files are compared.
  std::optional<int64_t> tensor_step;
  std::optional<TensorsComparison> tensors;
  std::vector<std::string> notes;

  /// True if only the configurations were compared.
  bool only_config() const;
  /// True if metrics or tensors differ by more than the tolerance or, with only_config(), if the
  /// configurations differ.
  bool differs() const;
};

/// Parses the command line. Throws Error (kUsage) when it is invalid.
CompareOptions parse_compare_command_line(const std::vector<std::string>& words);

/// Compares two runs. Throws Error when a run does not exist, a file is damaged, or there is nothing to
/// compare.
Comparison compare(const CompareOptions& options);

/// Returns a text of several lines; the last one is the verdict.
std::string report(const Comparison& comparison);

/// Prints the report and returns the exit code: 0 no difference, 1 differences, 2 an error, which is printed
/// to standard error.
int compare_main(const std::vector<std::string>& words);

}  // namespace mtf
