// Among layouts that are about equally fast, the plain one: it has the fewest rules.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/plan/search.h"

namespace mtf {

/// The part of the shortest time by which a layout with fewer rules may be slower.
inline constexpr double kAboutEqual = 0.01;

using RuleCount = std::function<int64_t(const EvaluatedLayout&)>;

/// True if both have the same rules on the same mesh.
bool is_same(const LayoutCandidate& a, const LayoutCandidate& b);

/// Puts one of the first `count` layouts before the others: of those that fit and are about as fast as the fastest the one
/// with the fewest rules, then with the least memory.
void put_plainest_first(std::vector<EvaluatedLayout>& layouts, int64_t count, const RuleCount& rules);

/// Evaluates layouts together, and returns the legal ones.
using EvaluateAll = std::function<std::vector<EvaluatedLayout>(std::vector<LayoutCandidate>)>;

/// Leaves out rules of the first layout, which put_plainest_first() has chosen, while what remains is about as fast, and
/// adds what was evaluated to `layouts`; the plainest stands first. Ends early when `is_over`.
void leave_out_rules(std::vector<EvaluatedLayout>& layouts, const DimensionSet& decided,
                     const EvaluateAll& evaluate, const RuleCount& rules,
                     const std::function<bool()>& is_over);

}  // namespace mtf
