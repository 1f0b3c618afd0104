// A cache of keys or values of hypotheses, one token further: hypotheses take over the cache of those that
// they continue, and each gets the entry of its new token. One operation, so that it runs where the cache
// stands and touches what is in use only.
//
//   update_kv_cache(cache, key, position, parent, "beam", "memory_length")
#pragma once

#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"
#include "engine/ops/fused.h"

namespace mtf {

/// With h, m the indices along `rows` and `memory`: y[h, m] = cache[parent[h], m] for m < position,
/// entry[h] for m = position, and what the cache had behind it. entry: the dimensions of the cache but
/// `memory`; position: int32, any of these but `rows`; parent: int32, these and `rows`. A parent that is no
/// index along `rows` counts as the hypothesis itself. Not differentiable.
Tensor update_kv_cache(const Tensor& cache, const Tensor& entry, const Tensor& position, const Tensor& parent,
                       DimensionName rows, DimensionName memory);

/// Inputs: cache, entry, position, parent. Dimensions `rows` and `memory` that are split are gathered first.
class UpdateKvCache final : public OperationBase<UpdateKvCache> {
 public:
  UpdateKvCache(const Tensor& cache, const Tensor& entry, const Tensor& position, const Tensor& parent,
                std::string_view rows, std::string_view memory);
  std::string_view name() const override { return "update_kv_cache"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override { return 0; }

  std::string rows, memory;
};

}  // namespace mtf
