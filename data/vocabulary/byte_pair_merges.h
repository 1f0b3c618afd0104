// Byte pair encoding of words: neighbours are merged in the order of a list (Sennrich et al. 2016).
//
//   BytePairMerges(model).encode("lower", ids);
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/vocabulary/merge_symbols.h"
#include "data/vocabulary/tokenizer_file.h"

namespace mtf {

/// Immutable: several threads may use one.
class BytePairMerges {
 public:
  explicit BytePairMerges(BytePairModel model);

  /// Appends the ids of a word in valid UTF-8, in time O(n log n). With dropout a word that is a token is made of merges, too.
  void encode(std::string_view word, std::vector<int32_t>& ids, const MergeDropout* dropout = nullptr) const;

  /// Returns where the first part of a word ends whose ids do not depend on what is behind it: before a sign for a blank
  /// (U+2581) behind another character, if no token has both.
  size_t end_of_part(std::string_view word) const;

 private:
  std::optional<SymbolMerge> find_merge(int32_t left, int32_t right) const;
  std::vector<int32_t> ids_of_characters(std::string_view word) const;

  BytePairModel model_;
  std::unordered_map<uint64_t, SymbolMerge> merges_;  ///< by the ids of both
  bool divides_at_blanks_ = false;
};

}  // namespace mtf
