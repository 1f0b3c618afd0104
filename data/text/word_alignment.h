// Alignments of the words of a pair of texts in Pharaoh format, and of their tokens: each token of a word is linked to each
// token of the words that are linked to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace mtf {

/// A word of the inputs and one of the targets, from 0 (data/text/token_words.h).
struct WordLink {
  int32_t input = 0, target = 0;
};

/// Parses a line such as "0-0 1-2", which may be blank. Nothing: it is something else.
std::optional<std::vector<WordLink>> parse_word_links(std::string_view line);

/// Appends the links of tokens, each an input and a target, ordered by target and each once. The words are those of the
/// tokens of the pair, ascending.
void append_token_links(std::span<const WordLink> links, std::span<const int32_t> input_words,
                        std::span<const int32_t> target_words, std::vector<int32_t>& token_links);

}  // namespace mtf
