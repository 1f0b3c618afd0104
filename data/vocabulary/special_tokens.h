// Tokens that no text has: those around the texts of a row, [CLS] text [SEP] pair [SEP] or, as in RoBERTa,
// <s> text </s></s> pair </s>, the one that hides others, and the sentinels of objectives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/vocabulary/vocabulary.h"
#include "engine/config/schema.h"

namespace mtf {

/// Pieces of the vocabulary. Empty: `[CLS]` and `[SEP]` where the vocabulary has them, else its end of sequence; `<s>` begins
/// a row where the vocabulary has it and `<mask>`.
struct SpecialTokenOptions {
  std::string start, separator;
  std::optional<int64_t> between =
      {};  ///< separators between two texts; nothing: 2 where `<s>` begins a row, else 1
};
void describe(config::Visitor& visit, SpecialTokenOptions& options);

struct SpecialTokens {
  int32_t start = kEosId;
  int32_t separator = kEosId;
  int64_t between = 1;  ///< separators between two texts

  /// Tokens around a text, and around the two of a pair.
  static constexpr int64_t around_text = 2;
  int64_t around_pair() const { return around_text + between; }
};

/// Throws Error (kConfig, at `mark`) for a piece that the vocabulary does not have.
SpecialTokens find_special_tokens(const SpecialTokenOptions& options, const Vocabulary& vocabulary,
                                  const Mark& mark);

/// The piece that hides tokens: `wanted`, or where that is empty `[MASK]` or `<mask>`. Throws Error (kConfig, at `mark`) for a
/// piece that the vocabulary does not have.
int32_t find_mask(const std::string& wanted, const Vocabulary& vocabulary, const Mark& mark = {});

/// The id of a piece. Throws Error (kConfig, at `mark`) when the vocabulary does not have it.
int32_t required_piece(std::string_view piece, const Vocabulary& vocabulary, const Mark& mark = {});

/// Number of extra ids at the end of a vocabulary: <extra_id_0> is its last id, <extra_id_1> the one before it, ...
int64_t sentinel_count(const Vocabulary& vocabulary);

}  // namespace mtf
