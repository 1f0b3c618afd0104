// The program behind `mtf-compare RUN_A RUN_B`: do two runs differ, and where first?
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
  std::string b = {};    ///< what it is compared with
  double tolerance = 0;  ///< relative; 0: bit for bit
  /// Which parts are asked for by name: then these only, and it is an error when one cannot be compared.
  /// None: all that both have.
  bool config = false, metrics = false, tensors = false;

  bool all() const { return !config && !metrics && !tensors; }
};

/// Parts that were not asked for or that cannot be compared are empty; `notes` says why.
struct Comparison {
  CompareOptions options;
  std::optional<std::vector<ConfigDifference>> config;
  std::optional<SeriesComparison> metrics;
  std::vector<SeriesComparison> evaluations;
  std::optional<int64_t>
      tensor_step;  ///< of the newest checkpoint that both have; nothing where files are compared
  std::optional<TensorsComparison> tensors;
  std::vector<std::string> notes;

  /// There was nothing else to compare, or nothing else was asked for.
  bool only_config() const;
  /// Metrics or tensors differ by more than the tolerance; with only_config(), configurations differ.
  bool differs() const;
};

/// Throws Error (kUsage) for words that are no command line of mtf-compare.
CompareOptions parse_compare_command_line(const std::vector<std::string>& words);

/// Throws Error when there is no such run, a file is damaged, or there is nothing to compare.
Comparison compare(const CompareOptions& options);

/// Text of several lines; the last one is the verdict.
std::string report(const Comparison& comparison);

/// Prints the report. The exit code: 0 no difference, 1 differences, 2 trouble, with a line on standard
/// error.
int compare_main(const std::vector<std::string>& words);

}  // namespace mtf
