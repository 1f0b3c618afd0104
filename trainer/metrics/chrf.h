// chrF (Popović, 2015) and chrF++ (Popović, 2017): F-scores of character and word n-grams, with the same
// results as sacreBLEU 2.6.
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
  int64_t char_order = 6;  ///< largest order of character n-grams
  int64_t word_order = 0;  ///< largest order of word n-grams; 2 gives chrF++
  int64_t beta = 2;        ///< weight of recall relative to precision
  bool lowercase = false;
  bool whitespace = false;     ///< character n-grams include white space
  bool eps_smoothing = false;  ///< orders without n-grams count as nearly 0, as in chrF++.py, NLTK and Moses
};

/// references[r][i] is reference r of hypotheses[i]; the reference with the best score counts. Throws Error
/// (kUsage) when their numbers differ.
double corpus_chrf(std::span<const std::string> hypotheses, const References& references,
                   const ChrfOptions& options = {});

std::unique_ptr<TextMetric> make_chrf(const ChrfOptions& options);

}  // namespace mtf
