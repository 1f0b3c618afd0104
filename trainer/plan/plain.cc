#include "trainer/plan/plain.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace mtf {
namespace {

/// Seconds up to which a layout is about as fast as the fastest one that fits.
double about_as_fast(const std::vector<EvaluatedLayout>& layouts, int64_t count) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    const LayoutCost& cost = layouts[static_cast<size_t>(i)].cost;
    if (cost.fits) fastest = std::min(fastest, cost.seconds);
  }
  return fastest * (1 + kAboutEqual);
}

/// The first one of a layout; null if it was not evaluated.
const EvaluatedLayout* find(const std::vector<EvaluatedLayout>& layouts, const LayoutCandidate& layout) {
  const auto found =
      std::ranges::find_if(layouts, [&](const EvaluatedLayout& e) { return is_same(e.layout, layout); });
  return found == layouts.end() ? nullptr : &*found;
}

/// A rule of a layout: a dimension over a mesh dimension.
struct Bit {
  size_t axis = 0;
  size_t dimension = 0;
};

/// All rules of a layout but those for `decided` dimensions.
std::vector<Bit> bits_of(const LayoutCandidate& layout, const DimensionSet& decided) {
  std::vector<Bit> bits;
  for (size_t axis = 0; axis < layout.chosen.size(); ++axis) {
    for (size_t i = 0; i < kMostDimensions; ++i) {
      if (layout.chosen[axis][i] && !decided[i]) bits.push_back({axis, i});
    }
  }
  return bits;
}

}  // namespace

bool is_same(const LayoutCandidate& a, const LayoutCandidate& b) {
  return a.mesh == b.mesh && a.chosen == b.chosen;
}

void put_plainest_first(std::vector<EvaluatedLayout>& layouts, int64_t count, const RuleCount& rules) {
  const double most = about_as_fast(layouts, count);
  const auto rank = [&](const EvaluatedLayout& e) {
    return std::tuple(rules(e), e.cost.bytes, e.cost.seconds);
  };
  auto plainest = layouts.end();
  const auto end = layouts.begin() + count;
  for (auto layout = layouts.begin(); layout != end; ++layout) {
    if (!layout->cost.fits || layout->cost.seconds > most) continue;
    if (plainest == layouts.end() || rank(*layout) < rank(*plainest)) plainest = layout;
  }
  if (plainest != layouts.end()) std::rotate(layouts.begin(), plainest, plainest + 1);
}

void leave_out_rules(std::vector<EvaluatedLayout>& layouts, const DimensionSet& decided,
                     const EvaluateAll& evaluate, const RuleCount& rules,
                     const std::function<bool()>& is_over) {
  if (layouts.empty() || !layouts.front().cost.fits) return;
  const double most = about_as_fast(layouts, std::ssize(layouts));
  std::vector<Bit> bits = bits_of(layouts.front().layout, decided);
  while (!bits.empty() && !is_over()) {
    const LayoutCandidate before = layouts.front().layout;
    std::vector<LayoutCandidate> fewer, unknown;
    for (const Bit& bit : bits) {
      fewer.push_back(before);
      fewer.back().chosen[bit.axis].reset(bit.dimension);
      if (find(layouts, fewer.back()) == nullptr) unknown.push_back(fewer.back());
    }
    std::ranges::move(evaluate(std::move(unknown)), std::back_inserter(layouts));
    std::ranges::stable_sort(layouts, is_better);
    std::vector<Bit> unneeded;  // the others are needed with even fewer rules, too
    for (size_t i = 0; i < bits.size(); ++i) {
      const EvaluatedLayout* result = find(layouts, fewer[i]);
      if (result != nullptr && result->cost.fits && result->cost.seconds <= most) unneeded.push_back(bits[i]);
    }
    put_plainest_first(layouts, std::ssize(layouts), rules);
    const LayoutCandidate& now = layouts.front().layout;
    if (is_same(now, before)) return;
    std::erase_if(unneeded, [&](const Bit& bit) { return !now.chosen[bit.axis][bit.dimension]; });
    bits = std::move(unneeded);
  }
}

}  // namespace mtf
