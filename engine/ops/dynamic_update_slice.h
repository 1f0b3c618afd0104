// Writes one entry along a dimension, as a cache of keys and values needs it.
//
//   dynamic_update_slice(cache, key, position, "memory_length")   // cache[.., position, ..] = key
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Returns x with `entry` in place of the entry at `index` along `dimension`. entry: the dimensions of x
/// except `dimension`; index: int32, any of these. An index outside 0 .. size-1 changes nothing.
Tensor dynamic_update_slice(const Tensor& x, const Tensor& entry, const Tensor& index,
                            DimensionName dimension);

/// Inputs: x, entry, index. If the dimension is split, it is gathered first.
class DynamicUpdateSlice final : public OperationBase<DynamicUpdateSlice> {
 public:
  DynamicUpdateSlice(const Tensor& x, const Tensor& entry, const Tensor& index, std::string_view dimension);
  std::string_view name() const override { return "dynamic_update_slice"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override { return 0; }

  std::string dimension;
};

}  // namespace mtf
