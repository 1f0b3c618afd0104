#include "data/vocabulary/byte_pair_merges.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/vocabulary/byte_characters.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

/// Returns where a U+2581 stands behind another character; the size of the text if nowhere.
size_t blank_behind_character(std::string_view text) {
  for (size_t at = text.find(kEscapedBlank); at != std::string_view::npos;
       at = text.find(kEscapedBlank, at + kEscapedBlank.size())) {
    if (at > 0 && !text.substr(0, at).ends_with(kEscapedBlank)) return at;
  }
  return text.size();
}

}  // namespace

BytePairMerges::BytePairMerges(BytePairModel model) : model_(std::move(model)) {
  merges_.reserve(model_.merges.size());
  for (const BytePairModel::Merge& merge : model_.merges)
    merges_[pair_key(merge.left, merge.right)] = {static_cast<int32_t>(&merge - model_.merges.data()),
                                                  merge.merged};
  const auto has_blank_behind_character = [](const auto& token) {
    return blank_behind_character(token.first) < token.first.size();
  };
  divides_at_blanks_ = !model_.ignores_merges && !model_.is_byte_level && model_.find_id(kEscapedBlank) &&
                       std::ranges::none_of(model_.ids, has_blank_behind_character);
}

std::optional<SymbolMerge> BytePairMerges::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? std::nullopt : std::optional(found->second);
}

size_t BytePairMerges::end_of_part(std::string_view word) const {
  return divides_at_blanks_ ? blank_behind_character(word) : word.size();
}

/// Returns the ids of the characters. As in `tokenizers`, an unknown one gives its id before the next character that is a
/// token.
std::vector<int32_t> BytePairMerges::ids_of_characters(std::string_view word) const {
  std::vector<int32_t> ids;
  bool follows_unknown = false;
  const auto end_unknown = [&] {
    if (std::exchange(follows_unknown, false)) ids.push_back(*model_.unknown);
  };
  for (size_t begin = 0, end = 0; begin < word.size(); begin = end) {
    next_character(word, end);
    const std::string_view character = word.substr(begin, end - begin);
    if (const std::optional<int32_t> id = model_.find_id(character)) {
      end_unknown();
      ids.push_back(*id);
    } else if (!(model_.falls_back_to_bytes && model_.append_byte_tokens(character, ids)) && model_.unknown) {
      if (!model_.fuses_unknown) end_unknown();
      follows_unknown = true;
    }
  }
  end_unknown();
  return ids;
}

void BytePairMerges::encode(std::string_view word, std::vector<int32_t>& ids,
                            const MergeDropout* dropout) const {
  const std::string characters = model_.is_byte_level ? bytes_as_characters(word) : std::string(word);
  if (model_.ignores_merges && dropout == nullptr) {
    if (const std::optional<int32_t> id = model_.find_id(characters)) return ids.push_back(*id);
  }
  std::vector<MergeSymbol> symbols = symbols_of(ids_of_characters(characters));
  const auto find = [&](int32_t left, int32_t right) {
    return find_merge(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
  };
  merge_symbols(symbols, find, dropout);
  for (const MergeSymbol& symbol : symbols) {
    if (symbol.id != kMergedAway) ids.push_back(symbol.id);
  }
}

}  // namespace mtf
