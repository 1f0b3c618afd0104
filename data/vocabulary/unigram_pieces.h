// Unigram models of Hugging Face: of all ways to divide a word into tokens the most probable one (Kudo 2018).
//
//   UnigramPieces(model).encode("\u2581lower", ids);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/vocabulary/tokenizer_file.h"

namespace mtf {

/// Immutable: several threads may use one.
class UnigramPieces {
 public:
  explicit UnigramPieces(UnigramModel model);

  /// Appends the ids of a word in valid UTF-8 that the library `tokenizers` gives: sums of scores are in double precision, and
  /// the one whose last token is longer counts among equal ones. Unknown characters in a row are one token.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  void append_token(std::string_view token, std::vector<int32_t>& ids) const;

  UnigramModel model_;
  size_t longest_ = 0;        ///< bytes of the longest token
  double unknown_score_ = 0;  ///< that of a character that is no token
};

}  // namespace mtf
