// Writing one entry along a dimension: what a cache of keys and values needs.
//
//   dynamic_update_slice(cache, key, position, "memory_length")   // cache[.., position, ..] = key, the rest stays
#pragma once

#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// x with `entry` in place of what x has at `index` along `dimension`. entry: the dimensions of x but
/// `dimension`; index: int32, any of these. An index outside 0 .. size-1 changes nothing.
Tensor dynamic_update_slice(const Tensor& x, const Tensor& entry, const Tensor& index,
                            DimensionName dimension);

/// Inputs: x, entry, index. A dimension that is split is gathered first.
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
