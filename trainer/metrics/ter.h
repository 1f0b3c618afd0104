// Translation edit rate (Snover et al., 2006): edits per word of the reference, in percent, with the same
// results as sacreBLEU 2.6.
//
//   corpus_ter(hypotheses, {references}).score   // 0 is perfect; values above 100 are possible
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trainer/metrics/metric.h"
#include "trainer/metrics/tercom_tokenizer.h"

namespace mtf {

struct TerScore {
  double score = 0;
  int64_t edits = 0;            ///< edits to the reference that needs the fewest
  double reference_length = 0;  ///< in words, the mean over the references
};

/// references[r][i] is reference r of hypotheses[i]. Throws Error (kUsage) when their numbers differ.
TerScore corpus_ter(std::span<const std::string> hypotheses, const References& references,
                    const TercomOptions& options = {});

std::unique_ptr<TextMetric> make_ter(const TercomOptions& options);

}  // namespace mtf
