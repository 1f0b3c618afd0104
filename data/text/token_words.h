// Which word of its text each token belongs to. Words are what stands between blanks (space, tab, ends of lines), as in
// alignments in Pharaoh format; a vocabulary of any kind may divide them otherwise.
//
//   words_of_tokens(vocabulary, "Ein Haus .", vocabulary.encode("Ein Haus ."))   // 0 1 1 2
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/vocabulary/vocabulary.h"

namespace mtf {

/// The word of a token that belongs to none: an end of sequence.
inline constexpr int32_t kNoWord = -1;

int32_t count_words(std::string_view text);

/// The word of each of `ids`, which are encode(text) or its beginning. A token that reaches beyond a word belongs to the word
/// in which it begins; blanks belong to the word behind them.
std::vector<int32_t> words_of_tokens(const Vocabulary& vocabulary, std::string_view text,
                                     std::span<const int32_t> ids);

/// The same where the text is decode(ids): from an end of sequence on, there is no word.
std::vector<int32_t> words_of_written(const Vocabulary& vocabulary, std::span<const int32_t> ids);

}  // namespace mtf
