// Confidence intervals by bootstrap resampling (Koehn, 2004), with the numbers of sacreBLEU 2.6 on numpy 2.
#pragma once

#include <cstdint>

#include "data/metrics/metric.h"

namespace mtf {

/// Scores `samples` corpora of as many segments, drawn with replacement. The seed is 12345, or what the
/// environment variable SACREBLEU_SEED says; `none` there takes another each time. Throws Error (kUsage) when
/// it says neither that nor a number.
Confidence bootstrap(const TextMetric& metric, const SegmentStatistics& statistics, int64_t samples);

}  // namespace mtf
