// chrF (Popović, 2015) and chrF++ (Popović, 2017): F-scores of character and word n-grams, the same as
// sacreBLEU 2.6 computes.
//
//   corpus_chrf(hypotheses, {references})                        // chrF2, 0 to 100
//   corpus_chrf(hypotheses, {references}, {.word_order = 2})     // chrF2++
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trainer/metrics/metric.h"

namespace mtf {

struct ChrfOptions {
  int64_t char_order = 6;  ///< n-grams of characters up to this order
  int64_t word_order = 0;  ///< and of words; 2 gives chrF++
  int64_t beta = 2;        ///< recall weighs as much as beta times precision
  bool lowercase = false;
  bool whitespace = false;     ///< white space belongs to the n-grams of characters
  bool eps_smoothing = false;  ///< orders without n-grams count, as nearly 0: as chrF++.py, NLTK and Moses do
};

/// references[r][i] is reference r of hypotheses[i]; the one with the best score counts. Throws Error
/// (kUsage) when their numbers differ.
double corpus_chrf(std::span<const std::string> hypotheses, const References& references,
                   const ChrfOptions& options = {});

MetricSignature chrf_signature(const ChrfOptions& options, size_t references);
std::unique_ptr<TextMetric> make_chrf(const ChrfOptions& options);

}  // namespace mtf
