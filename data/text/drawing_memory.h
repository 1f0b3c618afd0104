// The memory that drawing the tokens of an epoch takes (`sampling` of a source), for the plan of a run's memory.
#pragma once

#include <cstdint>

#include "data/text/token_store.h"

namespace mtf {

/// Returns the bytes of memory that tokenising the texts of `tokens` again with `threads` threads takes, or packing `pieces`
/// pieces of them into rows, whichever is more. Texts are taken to be of the usual length, as most corpora have them; pages of
/// files that the system can take back do not count.
int64_t bytes_of_drawing_texts(int threads, const TokenStore& tokens, int64_t pieces);

}  // namespace mtf
