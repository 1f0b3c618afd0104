// Confidence intervals by bootstrap resampling (Koehn, 2004), with the numbers of sacreBLEU 2.6 on numpy 2.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/metrics/metric.h"

namespace mtf {

struct Seed {
  std::string name;  ///< in a signature
  uint64_t value;
};

/// 12345, or what the environment variable SACREBLEU_SEED says; `none` there takes another each time. Throws
/// Error (kUsage) when it says neither that nor a number.
Seed read_seed();

/// The scores of `samples` corpora of as many segments, drawn with replacement.
std::vector<double> resampled_scores(const TextMetric& metric, const SegmentStatistics& statistics,
                                     int64_t samples, const Seed& seed);

/// An interval of resampled_scores() with the seed of read_seed(), whose Error it throws.
Confidence bootstrap(const TextMetric& metric, const SegmentStatistics& statistics, int64_t samples);

}  // namespace mtf
