// Finds the tokens of a list in texts, as Hugging Face's tokenisers do with those that a text may spell out: "<|im_end|>".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary/tokenizer_file.h"

namespace mtf {

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Part of a text: a token, or what lies between two of them.
  struct Part {
    std::string_view text;
    const AddedToken* token = nullptr;  ///< null: no token
  };
  /// Returns the parts of a text in valid UTF-8, none of which is empty. Of tokens that begin at one place it takes the
  /// longest.
  std::vector<Part> divide(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;  ///< sorted by their texts
  std::string first_bytes_;
};

}  // namespace mtf
