#include "data/vocabulary/piece_lattice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace mtf {
namespace {

using PieceType = SentencePieceModelFile::PieceType;

/// What the library adds to the cost of the rarest piece for an unknown character.
constexpr float kUnknownPenalty = 10;
/// What the library takes for a piece of a user where no score is above 0.
constexpr double kCostOfUserDefined = 0.1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint8_t byte_at(std::string_view text, size_t index) { return static_cast<uint8_t>(text[index]); }

/// Length of a character that begins with this byte, as the library has it for bytes that are no UTF-8 too.
size_t character_length(uint8_t first) {
  return first < 0xC0 ? 1 : static_cast<size_t>(std::min(std::countl_one(first), 4));
}

/// The costs of the two best segmentations of the text before some place.
struct TwoBest {
  double first = kInfinity, second = kInfinity;

  void add(double cost) {
    second = std::min(second, std::max(first, cost));
    first = std::min(first, cost);
  }
  void add(const TwoBest& before, double cost) {
    add(before.first + cost);
    add(before.second + cost);
  }
};

/// Returns the sum of costs up to which rounding cannot make up for `gap`, the difference of the costs of the
/// two best segmentations of a word of so many characters.
///
/// Let u = 2^-24, T the exact sum of the costs up to and with the best segmentation of the word, m the number
/// of characters. A segmentation has at most m pieces, and each addition has an error of at most u times its
/// result, which is at most the last one. So the computed cost of the best segmentation, at the end of the
/// word, is at most m u T above the exact one (to first order in u), and that of another one, which costs
/// g >= gap more, at most m u (T + g) below. With gap > 2 m u T + m u gap it stays above; the search then
/// never prefers its beginning either, as rounding keeps the order of sums. Here gap is twice as large,
/// 4 (m + 1) u T, which makes up for terms of higher order, for the rounding of the sum before the word (less
/// than half of it: a text of a million bytes has at most six million characters when it is normalised) and
/// for that of the numbers that are kept.
double limit_of(double gap, size_t characters) { return gap * 0x1p22 / static_cast<double>(characters + 1); }

}  // namespace

PieceLattice::PieceLattice(const SentencePieceModelFile& model) : costs_(model.pieces.size(), kInfinity) {
  float least = std::numeric_limits<float>::max();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModelFile::Piece& piece = model.pieces[id];
    if (!piece.is_text()) continue;
    const bool is_normal = piece.type == PieceType::kNormal;
    if (is_normal) least = std::min(least, piece.score);
    costs_[id] = is_normal ? -piece.score : kCostOfUserDefined;
    pieces_.push_back({piece.text, costs_[id], static_cast<int32_t>(id)});
  }
  cost_of_unknown_ = -(least - kUnknownPenalty);
  std::ranges::sort(pieces_, {}, &Piece::text);  // strings compare bytes without sign
  for (const Piece& piece : pieces_) ++begins_[byte_at(piece.text, 0) + size_t{1}];
  for (size_t byte = 1; byte < begins_.size(); ++byte) begins_[byte] += begins_[byte - 1];
}

template <class Visit>
size_t PieceLattice::visit_pieces(std::string_view word, size_t begin, const Visit& visit) const {
  const size_t character = std::min(character_length(byte_at(word, begin)), word.size() - begin);
  bool is_known = false;
  // The pieces from `first` to `last` begin with the bytes of the word from `begin` to `end`.
  auto first = pieces_.begin() + static_cast<ptrdiff_t>(begins_[byte_at(word, begin)]);
  auto last = pieces_.begin() + static_cast<ptrdiff_t>(begins_[byte_at(word, begin) + size_t{1}]);
  for (size_t end = begin + 1; first != last; ++end) {
    const size_t length = end - begin;
    if (first->text.size() == length) {
      visit(end, &*first);
      is_known |= length == character;
      ++first;
    }
    if (end == word.size()) break;
    const auto next = [&](const Piece& piece) { return byte_at(piece.text, length); };
    first = std::ranges::lower_bound(first, last, byte_at(word, end), {}, next);
    last = std::ranges::upper_bound(first, last, byte_at(word, end), {}, next);
  }
  if (!is_known) visit(begin + character, nullptr);
  return character;
}

Segmentation PieceLattice::segment(std::string_view word) const {
  std::vector<TwoBest> best(word.size() + 1);
  best[0].first = 0;
  size_t characters = 0;
  for (size_t begin = 0; begin < word.size(); ++characters) {
    begin += visit_pieces(word, begin, [&](size_t end, const Piece* piece) {
      best[end].add(best[begin], piece ? piece->cost : cost_of_unknown_);
    });
  }
  const auto [cost, next_cost] = best.back();
  return {.cost = cost, .limit = limit_of(next_cost - cost, characters)};
}

void PieceLattice::append(std::string_view word, float& sum, std::vector<Part>& parts) const {
  struct Best {
    float sum = 0;
    size_t begin = std::string_view::npos;  ///< where the last piece begins
    int32_t id = kUnknown;
  };
  std::vector<Best> best(word.size() + 1);
  best[0].sum = sum;
  for (size_t begin = 0; begin < word.size();) {
    begin += visit_pieces(word, begin, [&](size_t end, const Piece* piece) {
      // As in the library: a sum is rounded when it is kept, and the first of equal ones stays.
      const double candidate =
          piece ? best[begin].sum - piece->cost : static_cast<float>(best[begin].sum - cost_of_unknown_);
      if (best[end].begin != std::string_view::npos && !(candidate > best[end].sum)) return;
      best[end] = {static_cast<float>(candidate), begin, piece ? piece->id : kUnknown};
    });
  }
  sum = best.back().sum;
  const auto old = std::ssize(parts);
  for (size_t end = word.size(); end > 0; end = best[end].begin)
    parts.push_back({best[end].id, word.substr(best[end].begin, end - best[end].begin)});
  std::ranges::reverse(parts.begin() + old, parts.end());
}

}  // namespace mtf
