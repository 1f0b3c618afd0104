// Advances a cache of the keys or values of hypotheses by one token: each hypothesis takes over the cache of
// the one that it continues, and gets the entry of its new token. It is one operation, so that it runs in
// place and only touches the part that is in use.
//
//   update_kv_cache(cache, key, position, parent, common, "beam", "memory_length")
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"
#include "engine/ops/fused.h"

namespace mtf {

/// Returns y, where h and m are the indices along `rows` and `memory`: y[h, m] is cache[parent[h], m] for
/// common[h] <= m < position, entry[h] for m = position, and unchanged elsewhere. The first `common` entries of a
/// hypothesis are those of its parent already. entry: the dimensions of the cache except `memory`; position: int32,
/// any of these except `rows`; parent and common: int32, these and `rows`. If a parent is not an index along `rows`, the
/// hypothesis continues itself. Not differentiable.
Tensor update_kv_cache(const Tensor& cache, const Tensor& entry, const Tensor& position, const Tensor& parent,
                       const Tensor& common, DimensionName rows, DimensionName memory);

/// Inputs: cache, entry, position, parent, common. Dimensions `rows` and `memory` that are split are gathered first.
class UpdateKvCache final : public OperationBase<UpdateKvCache> {
 public:
  UpdateKvCache(const Tensor& cache, const Tensor& entry, const Tensor& position, const Tensor& parent,
                const Tensor& common, std::string_view rows, std::string_view memory);
  std::string_view name() const override { return "update_kv_cache"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override { return 0; }

  std::string rows, memory;
};

}  // namespace mtf
