#include "data/vocabulary/byte_pair_merges.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "data/vocabulary/byte_characters.h"
#include "data/vocabulary/sentencepiece_model.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

constexpr int32_t kNoSymbol = -1;
/// The id of a symbol that has become part of the one before it.
constexpr int32_t kMergedAway = -1;

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

const BytePairMerges::Merge* BytePairMerges::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
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

void BytePairMerges::encode(std::string_view word, std::vector<int32_t>& ids) const {
  const std::string characters = model_.is_byte_level ? bytes_as_characters(word) : std::string(word);
  if (model_.ignores_merges) {
    if (const std::optional<int32_t> id = model_.find_id(characters)) return ids.push_back(*id);
  }
  std::vector<Symbol> symbols;
  for (const int32_t id : ids_of_characters(characters)) {
    const auto position = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = kNoSymbol;
  merge_symbols(symbols);
  for (const Symbol& symbol : symbols) {
    if (symbol.id != kMergedAway) ids.push_back(symbol.id);
  }
}

/// Does the merge that is first in the list, at its first place, until none is left.
void BytePairMerges::merge_symbols(std::vector<Symbol>& symbols) const {
  const auto at = [&](int32_t position) -> Symbol& { return symbols[static_cast<size_t>(position)]; };
  const auto is_later = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.merge.rank, a.position) > std::tie(b.merge.rank, b.position);
  };
  std::vector<Candidate> candidates;  // a heap; some are no longer there when they come up
  const auto add_candidate = [&](int32_t position) {
    if (position == kNoSymbol || at(position).next == kNoSymbol) return;
    const Merge* const merge = find_merge(at(position).id, at(at(position).next).id);
    if (merge == nullptr) return;
    candidates.push_back({*merge, position});
    std::ranges::push_heap(candidates, is_later);
  };
  for (int32_t position = 0; position < std::ssize(symbols); ++position) add_candidate(position);
  while (!candidates.empty()) {
    std::ranges::pop_heap(candidates, is_later);
    const auto [candidate, position] = candidates.back();
    candidates.pop_back();
    Symbol& left = at(position);
    if (left.id == kMergedAway || left.next == kNoSymbol) continue;
    Symbol& right = at(left.next);
    const Merge* const merge = find_merge(left.id, right.id);
    if (merge == nullptr || merge->merged != candidate.merged) continue;
    left.id = candidate.merged;
    right.id = kMergedAway;
    left.next = right.next;
    if (left.next != kNoSymbol) at(left.next).previous = position;
    add_candidate(left.previous);
    add_candidate(position);
  }
}

}  // namespace mtf
