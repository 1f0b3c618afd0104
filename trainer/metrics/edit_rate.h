// The edits of translation edit rate (Snover et al., 2006): the fewest insertions, deletions and
// substitutions of words, after shifts of groups of words that lower them, each of which counts as one edit.
//
//   edit_count(hypothesis, reference)   // of "b c a" and "a b c" 1
#pragma once

#include <cstdint>

#include "trainer/metrics/ngrams.h"

namespace mtf {

/// Which shifts are tried, and how far from the diagonal words are compared, follows Tercom and its limits as
/// sacreBLEU has them: at most 10 words are shifted by at most 50 places, and after 1000 tried shifts none is
/// made any more.
int64_t edit_count(const Units& hypothesis, const Units& reference);

}  // namespace mtf
