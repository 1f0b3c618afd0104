#include "engine/comm/move_plan.h"

#include <algorithm>

#include "engine/base/check.h"

namespace mtf {
namespace {

MovePlan plan_gather(const Collective& c) {
  const AxisExtent extent(c.input, c.dimension);
  const int64_t row = extent.size * extent.inner * static_cast<int64_t>(size_of(c.dtype));
  std::vector<StridedCopy> pieces;
  for (int64_t m = 0; m < c.members(); ++m) {
    pieces.push_back(
        {.source = m, .length = row, .source_begin = 0, .source_step = 0, .begin = m * row, .step = 0});
  }
  return {extent.outer, row, row * c.members(), {std::move(pieces)}, false};
}

/// Plans all_to_all: the first of the two axes divides a row into pieces; rows are those of the axes before
/// both.
MovePlan plan_all_to_all(const Collective& c) {
  const int64_t n = c.members();
  const int first = std::min(c.dimension, c.concat_dimension),
            second = std::max(c.dimension, c.concat_dimension);
  const AxisExtent a(c.input, first), b(c.input, second);
  const int64_t bytes = static_cast<int64_t>(size_of(c.dtype));
  const int64_t inner = b.inner * bytes;                                            // bytes below both axes
  const int64_t middle = b.inner * b.size == 0 ? 0 : a.inner / (b.size * b.inner);  // elements between them
  const bool splits_first = c.dimension == first;
  const int64_t kept_first = splits_first ? a.size / n : a.size;  // from each source
  const int64_t kept_second = splits_first ? b.size : b.size / n;
  const int64_t out_second = splits_first ? b.size * n : b.size / n;
  MovePlan plan{a.outer, a.size * a.inner * bytes, a.size * a.inner * bytes, {}, false};
  plan.pieces.resize(n);
  for (int64_t member = 0; member < n; ++member) {
    for (int64_t source = 0; source < n; ++source) {
      StridedCopy piece{.source = source, .count = kept_first * middle, .length = kept_second * inner};
      piece.source_step = b.size * inner;
      piece.step = out_second * inner;
      piece.source_begin =
          splits_first ? member * kept_first * middle * piece.source_step : member * kept_second * inner;
      piece.begin = splits_first ? source * kept_second * inner : source * kept_first * middle * piece.step;
      plan.pieces[member].push_back(piece);
    }
  }
  return plan;
}

MovePlan plan_exchange(const Collective& c) {
  const AxisExtent extent(c.input, c.dimension);
  const int64_t inner = extent.inner * static_cast<int64_t>(size_of(c.dtype));
  MovePlan plan{extent.outer, extent.size * inner, extent.size * inner, {}, true};
  plan.pieces.resize(c.members());
  for (int64_t member = 0; member < c.members(); ++member) {
    for (const Transfer& t : c.transfers[member]) {
      plan.pieces[member].push_back({.source = t.source,
                                     .length = t.count * inner,
                                     .source_begin = t.source_begin * inner,
                                     .source_step = 0,
                                     .begin = t.begin * inner,
                                     .step = 0});
    }
  }
  return plan;
}

}  // namespace

AxisExtent::AxisExtent(const std::vector<int64_t>& sizes, int axis) {
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
    (i < axis ? outer : i == axis ? size : inner) *= sizes[i];
  }
}

std::vector<StridedCopy> MovePlan::zeros(int64_t member) const {
  std::vector<StridedCopy> runs;
  if (!zero) return runs;
  std::vector<StridedCopy> sorted = of(member);
  std::ranges::sort(sorted, {}, &StridedCopy::begin);
  sorted.push_back({.begin = result_row});
  int64_t end = 0;
  for (const StridedCopy& piece : sorted) {
    MTF_CHECK(piece.count == 1, "{} runs beside zeros", piece.count);
    if (piece.begin > end) runs.push_back({.source = -1, .length = piece.begin - end, .begin = end});
    end = piece.begin + piece.length;
  }
  return runs;
}

MovePlan plan_moves(const Collective& c) {
  switch (c.kind) {
    case Collective::Kind::kAllGather:
      return plan_gather(c);
    case Collective::Kind::kAllToAll:
      return plan_all_to_all(c);
    case Collective::Kind::kExchange:
      return plan_exchange(c);
    default:
      MTF_CHECK(false, "moves nothing but sums");
  }
}

}  // namespace mtf
