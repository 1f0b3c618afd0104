// The tokens that stand around the texts of a row: [CLS] text [SEP] pair [SEP].
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace mtf
