// The loop of byte pair encoding: neighbours are merged, the best pair first, until no pair is left.
//
//   std::vector<MergeSymbol> symbols = symbols_of(ids);
//   merge_symbols(symbols, find, nullptr);   // find(i, j): the merge of symbols i and j, which are neighbours, or nothing
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "data/draws.h"

namespace mtf {

inline constexpr int32_t kNoSymbol = -1;
/// The id of a symbol that has become part of the one before it.
inline constexpr int32_t kMergedAway = -1;

struct MergeSymbol {
  int32_t id;
  int32_t previous, next;  ///< kNoSymbol: there is none
};

/// A merge of two neighbours.
struct SymbolMerge {
  int32_t rank = 0;    ///< the smallest one is done first, at its first place
  int32_t merged = 0;  ///< id of the result
};

/// BPE dropout: whenever a merge is chosen, each possible one is left out with this probability.
struct MergeDropout {
  double probability;
  Draws& draws;
};

/// Returns symbols with these ids, one behind the other.
inline std::vector<MergeSymbol> symbols_of(std::span<const int32_t> ids) {
  std::vector<MergeSymbol> symbols;
  symbols.reserve(ids.size());
  for (const int32_t id : ids) {
    const auto position = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  if (!symbols.empty()) symbols.back().next = kNoSymbol;
  return symbols;
}

/// Merges the symbols, in time O(n log n), with dropout divided by 1 - probability. Symbols whose id is kMergedAway are no
/// longer there. find(left, right) gives std::optional<SymbolMerge> for the positions of neighbours.
template <class Find>
void merge_symbols(std::vector<MergeSymbol>& symbols, const Find& find, const MergeDropout* dropout) {
  /// A merge of the symbol at `position`, whose id was `left`, with the one behind it.
  struct Candidate {
    SymbolMerge merge;
    int32_t position, left, right;
  };
  const auto at = [&](int32_t position) -> MergeSymbol& { return symbols[static_cast<size_t>(position)]; };
  const auto is_later = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.merge.rank, a.position) > std::tie(b.merge.rank, b.position);
  };
  std::vector<Candidate> candidates;  // a heap; some are no longer there when they come up
  std::vector<Candidate> left_out;
  const auto enter = [&](const Candidate& candidate) {
    candidates.push_back(candidate);
    std::ranges::push_heap(candidates, is_later);
  };
  const auto add_candidate = [&](int32_t position) {
    if (position == kNoSymbol || at(position).next == kNoSymbol) return;
    if (const std::optional<SymbolMerge> merge = find(position, at(position).next))
      enter({*merge, position, at(position).id, at(at(position).next).id});
  };
  // Without dropout a candidate stands for any pair with the same result, as in `tokenizers`; with it each pair has one.
  const auto is_there = [&](const Candidate& candidate) {
    const MergeSymbol& left = at(candidate.position);
    if (left.id == kMergedAway || left.next == kNoSymbol) return false;
    if (dropout != nullptr) return left.id == candidate.left && at(left.next).id == candidate.right;
    const std::optional<SymbolMerge> merge = find(candidate.position, left.next);
    return merge && merge->merged == candidate.merge.merged;
  };
  for (int32_t position = 0; position < std::ssize(symbols); ++position) add_candidate(position);
  while (!candidates.empty()) {
    std::ranges::pop_heap(candidates, is_later);
    const Candidate candidate = candidates.back();
    candidates.pop_back();
    if (!is_there(candidate)) continue;
    if (dropout != nullptr && dropout->draws.chance(dropout->probability)) {
      left_out.push_back(candidate);
      continue;
    }
    MergeSymbol& left = at(candidate.position);
    MergeSymbol& right = at(left.next);
    left.id = candidate.merge.merged;
    right.id = kMergedAway;
    left.next = right.next;
    if (left.next != kNoSymbol) at(left.next).previous = candidate.position;
    for (const Candidate& again : left_out) enter(again);
    left_out.clear();
    add_candidate(left.previous);
    add_candidate(candidate.position);
  }
}

}  // namespace mtf
