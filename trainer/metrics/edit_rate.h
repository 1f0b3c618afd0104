// Counts the edits of translation edit rate (Snover et al., 2006): the fewest insertions, deletions and
// substitutions of words, after shifts of groups of words, each of which counts as one edit.
//
//   edit_count(hypothesis, reference)   // 1 for "b c a" and "a b c"
#pragma once

#include <cstdint>

#include "trainer/metrics/ngrams.h"

namespace mtf {

/// The shifts that are tried, and the distance from the diagonal up to which words are compared, are those of
/// Tercom with the limits of sacreBLEU: at most 10 words are shifted by at most 50 positions, and after 1000
/// tried shifts no more are applied.
int64_t edit_count(const Units& hypothesis, const Units& reference);

}  // namespace mtf
