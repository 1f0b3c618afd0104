#include "data/vocabulary/piece_lattice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

using PieceType = SentencePieceModelFile::PieceType;

/// What the library adds to the cost of the rarest piece for an unknown character.
constexpr float kUnknownPenalty = 10;
/// What the library takes for a piece of a user where no score is above 0.
constexpr double kCostOfUserDefined = 0.1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint8_t byte_at(std::string_view text, size_t index) { return static_cast<uint8_t>(text[index]); }

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
  const size_t character = character_length(word.substr(begin));
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

namespace {

/// A piece that ends at some place of a text.
struct PieceBefore {
  size_t begin;
  double log_weight;  ///< logarithm of the sum over all segmentations that end with it
  int32_t id;
  int32_t next;  ///< another one with the same end; -1: there is none
};

/// The pieces that end at each place.
struct PiecesByEnd {
  explicit PiecesByEnd(size_t bytes) : first(bytes + 1, -1), log_sum(bytes + 1, -kInfinity) {}

  void add(size_t end, size_t begin, double log_weight, int32_t id) {
    all.push_back({begin, log_weight, id, first[end]});
    first[end] = static_cast<int32_t>(all.size()) - 1;
  }
  template <class Visit>
  void for_each(size_t end, const Visit& visit) const {
    for (int32_t i = first[end]; i >= 0; i = all[static_cast<size_t>(i)].next)
      visit(all[static_cast<size_t>(i)]);
  }
  /// Sets log_sum[end] once all pieces that end there are known.
  void add_up(size_t end) {
    double most = -kInfinity, sum = 0;
    for_each(end, [&](const PieceBefore& piece) { most = std::max(most, piece.log_weight); });
    for_each(end, [&](const PieceBefore& piece) { sum += reproducible::exp(piece.log_weight - most); });
    log_sum[end] = sum == 1 ? most : most + reproducible::log(sum);
  }

  std::vector<PieceBefore> all;
  std::vector<int32_t> first;   ///< [bytes + 1]: index of one of the pieces; -1: there is none
  std::vector<double> log_sum;  ///< [bytes + 1]: of all segmentations of the text up to there
};

}  // namespace

void PieceLattice::sample(std::string_view text, double alpha, Draws& draws, std::vector<Part>& parts) const {
  PiecesByEnd pieces(text.size());
  pieces.log_sum[0] = 0;
  for (size_t begin = 0; begin < text.size();) {
    if (begin > 0) pieces.add_up(begin);
    begin += visit_pieces(text, begin, [&](size_t end, const Piece* piece) {
      const double cost = piece ? piece->cost : cost_of_unknown_;
      pieces.add(end, begin, pieces.log_sum[begin] - alpha * cost, piece ? piece->id : kUnknown);
    });
  }
  if (!text.empty()) pieces.add_up(text.size());
  const auto old = std::ssize(parts);
  for (size_t end = text.size(); end > 0;) {
    double left = draws.uniform();
    PieceBefore drawn{};
    bool found = false;
    pieces.for_each(end, [&](const PieceBefore& piece) {
      if (found) return;
      drawn = piece;  // the last one where rounding leaves something
      left -= reproducible::exp(piece.log_weight - pieces.log_sum[end]);
      found = left <= 0;
    });
    parts.push_back({drawn.id, text.substr(drawn.begin, end - drawn.begin)});
    end = drawn.begin;
  }
  std::ranges::reverse(parts.begin() + old, parts.end());
}

}  // namespace mtf
