// Encodes texts word by word, so that each token belongs to one word.
//
//   const WordEncoder encoder(context);
//   for (const WordSpan& word : words_of(text)) encoder.encode(text, word);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/text/text_settings.h"

namespace mtf {

/// A word of a text.
struct WordSpan {
  size_t begin = 0, end = 0;  ///< offsets of bytes
  bool after_blank = false;   ///< white space stands before it
};

/// Splits a text at white space and around each punctuation mark and each ideograph: the words of BERT's basic tokeniser.
std::vector<WordSpan> words_of(std::string_view text);

class WordEncoder {
 public:
  /// Keeps a reference to the context, which must have a vocabulary.
  explicit WordEncoder(const SourceContext& context);

  /// Returns the tokens of one word, possibly none. Vocabularies whose tokens tell where a blank was, such as bytes, get
  /// the blank before it.
  std::vector<int32_t> encode(std::string_view word, bool after_blank) const;

 private:
  const SourceContext& context_;
  bool needs_blanks_;
};

}  // namespace mtf
