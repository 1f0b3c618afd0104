// Tests whether the scores of two systems differ significantly: paired bootstrap resampling (Koehn, 2004) and
// paired approximate randomization (Riezler and Maxwell, 2005), with the same results as sacreBLEU 2.6 on
// numpy 2.
//
//   const auto metric = make_bleu({});
//   const MetricColumn column = paired_test(*metric, {baseline, other}, references, {});
//   column.scores[1].p_value      // p-value of the other system
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/metrics/metric.h"

namespace mtf {

enum class PairedTest { kBootstrap, kRandomization };

struct PairedOptions {
  PairedTest test = PairedTest::kBootstrap;
  int64_t samples = 1000;  ///< number of resampled corpora or of trials
};

/// The score of one system.
struct SystemScore {
  double value = 0;
  /// P-value of the difference from the baseline; nullopt for the baseline.
  std::optional<double> p_value = {};
  std::optional<Confidence> confidence = {};
};

/// The scores of all systems under one metric.
struct MetricColumn {
  std::string name;
  std::vector<SystemScore> scores;
  MetricSignature signature;
};

/// Compares systems; systems[s][i] is segment i of system s, and the first system is the baseline. The seed
/// is that of read_seed() in bootstrap.h. Throws Error (kUsage) when the numbers of segments differ.
MetricColumn paired_test(TextMetric& metric, const std::vector<std::vector<std::string>>& systems,
                         const References& references, const PairedOptions& options);

}  // namespace mtf
