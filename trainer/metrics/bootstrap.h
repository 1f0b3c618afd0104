// Confidence intervals by bootstrap resampling (Koehn, 2004), with the same results as sacreBLEU 2.6 on numpy
// 2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/metrics/metric.h"

namespace mtf {

struct Seed {
  std::string name;  ///< the seed's text in a signature
  uint64_t value;
};

/// Returns the seed of the environment variable SACREBLEU_SEED, by default 12345; the value `none` gives a
/// random seed. Throws Error (kUsage) when the value is neither a number nor `none`.
Seed read_seed();

/// Returns the scores of `samples` resampled corpora. Each has the same number of segments, drawn with
/// replacement.
std::vector<double> resampled_scores(const TextMetric& metric, const SegmentStatistics& statistics,
                                     int64_t samples, const Seed& seed);

/// Returns the confidence interval of resampled_scores() with the seed of read_seed(). Throws the Error of
/// read_seed().
Confidence bootstrap(const TextMetric& metric, const SegmentStatistics& statistics, int64_t samples);

}  // namespace mtf
