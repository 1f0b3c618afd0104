// Tokens that no text has: those around the texts of a row, [CLS] text [SEP] pair [SEP], and the sentinels of objectives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/vocabulary/vocabulary.h"
#include "engine/config/schema.h"

namespace mtf {

/// Pieces of the vocabulary. Empty: `[CLS]` and `[SEP]` where the vocabulary has them, else its end of sequence.
struct SpecialTokenOptions {
  std::string start, separator;
};
void describe(config::Visitor& visit, SpecialTokenOptions& options);

struct SpecialTokens {
  int32_t start = kEosId;
  int32_t separator = kEosId;
};

/// Throws Error (kConfig, at `mark`) for a piece that the vocabulary does not have.
SpecialTokens find_special_tokens(const SpecialTokenOptions& options, const Vocabulary& vocabulary,
                                  const Mark& mark);

/// The id of a piece. Throws Error (kConfig, at `mark`) when the vocabulary does not have it.
int32_t required_piece(std::string_view piece, const Vocabulary& vocabulary, const Mark& mark = {});

/// Number of extra ids at the end of a vocabulary: <extra_id_0> is its last id, <extra_id_1> the one before it, ...
int64_t sentinel_count(const Vocabulary& vocabulary);

}  // namespace mtf
