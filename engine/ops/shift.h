// Shifts entries along a dimension: y[i] = x[i - offset].
//
//   shift(x, 2, "length", false)   // [1, 2, 3, 4] -> [0, 0, 1, 2]
//   shift(x, -1, "length", true)   // [1, 2, 3, 4] -> [2, 3, 4, 1]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Returns y[i] = x[i - offset] along `dimension`. Entries from outside are zero, or with `wrap` those of the
/// other end. Any offset is valid: without `wrap`, an offset of at least the size gives zeros.
Tensor shift(const Tensor& x, int64_t offset, DimensionName dimension, bool wrap);

/// The same with an offset for each combination of other dimensions. offset: int32, dimensions of x except
/// `dimension`.
Tensor dynamic_shift(const Tensor& x, const Tensor& offset, DimensionName dimension, bool wrap);

/// If `dimension` is split, neighbours exchange entries instead; the kernel only runs if it is not split.
class Shift final : public OperationBase<Shift> {
 public:
  Shift(const Tensor& x, int64_t offset, std::string_view dimension, bool wrap);
  std::string_view name() const override { return "shift"; }
  std::optional<NeighbourShift> neighbour_shift() const override {
    return NeighbourShift{dimension, offset, wrap};
  }
  std::string attributes() const override;
  /// Returns shift(dy, -offset).
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  std::string dimension;
  int64_t offset;
  bool wrap;
};

/// Inputs: x, offset. If the dimension is split, it is gathered first.
class DynamicShift final : public OperationBase<DynamicShift> {
 public:
  DynamicShift(const Tensor& x, const Tensor& offset, std::string_view dimension, bool wrap,
               bool backward = false);
  std::string_view name() const override { return "dynamic_shift"; }
  std::string attributes() const override;
  /// Shifts dy by -offset.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  std::string dimension;
  bool wrap;
  bool backward;  ///< shifts by -offset
};

}  // namespace mtf
