// The tensor dimensions that a layout may split, and what keeps it from splitting them: sizes that a number of parts
// must divide, and dimensions that occur together in a tensor or an operation.
//
//   const SplittableDimensions dimensions({&step, &evaluation});
//   dimensions[i].name, dimensions[i].divisor, dimensions[i].conflicts;
//   const DimensionSet set = dimensions.of(shape);
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/structural.h"
#include "engine/spmd/partition/liveness.h"

namespace mtf {

inline constexpr size_t kMostDimensions = 192;
/// A set of dimensions: bit i stands for dimension i of SplittableDimensions.
using DimensionSet = std::bitset<kMostDimensions>;

struct SplittableDimension {
  std::string name;
  int64_t divisor = 0;     ///< the greatest common divisor of all sizes: a number of parts must divide it
  double elements = 0;     ///< elements of all tensors that have the dimension
  DimensionSet conflicts;  ///< dimensions that may not be split over the same mesh dimension
};

class SplittableDimensions {
 public:
  /// The dimensions of all tensors that these graphs compute, those with the most elements first. Those that no rule can
  /// name, those along which some operation cannot be split, and those whose sizes have no common divisor are left out.
  explicit SplittableDimensions(const std::vector<const Graph*>& graphs);

  size_t size() const { return dimensions_.size(); }
  const SplittableDimension& operator[](size_t i) const { return dimensions_[i]; }
  /// True if there were more than kMostDimensions, of which the ones with the fewest elements were left out.
  bool are_cut() const { return are_cut_; }
  std::optional<size_t> find(std::string_view name) const;
  DimensionSet of(const Shape& shape) const;

 private:
  std::vector<SplittableDimension> dimensions_;
  bool are_cut_ = false;
};

/// Calls `visit` with each operation that an output or an assignment of the graph needs, those in loops included.
template <class Visit>
void for_each_live_operation(const Graph& graph, const Visit& visit) {
  const OperationSet live = live_operations(graph);
  const auto walk = [&](const auto& self, const Block& block) -> void {
    for (const auto& operation : block) {
      if (!live.contains(operation.get())) continue;
      visit(*operation);
      if (const auto* loop = dynamic_cast<const Repeat*>(operation.get())) self(self, loop->body);
    }
  };
  walk(walk, graph.root());
}

}  // namespace mtf
