#include "engine/ops/update_kv_cache.h"

#include <fmt/format.h>

#include "engine/ops/whole_dimension.h"

namespace mtf {

UpdateKvCache::UpdateKvCache(const Tensor& cache, const Tensor& entry, const Tensor& position,
                             const Tensor& parent, const Tensor& common, std::string_view rows,
                             std::string_view memory)
    : OperationBase({cache, entry, position, parent, common}, {{cache.shape(), cache.dtype()}}),
      rows(rows),
      memory(memory) {
  const Dimension& row = cache.shape().dimension(rows);
  const Shape entries = cache.shape() - cache.shape().dimension(memory), others = entries - row;
  const auto check = [](std::string_view what, const Tensor& x, bool fits, const std::string& right) {
    if (!fits)
      shape_error("update_kv_cache",
                  fmt::format("{} is {} {}", what, name_of(x.dtype()), x.shape().to_string()), right);
  };
  check("the entry", entry, same_dimensions(entries, entry.shape()) && entry.dtype() == cache.dtype(),
        fmt::format("{} {}", name_of(cache.dtype()), entries.to_string()));
  check("the position", position, others.contains_all(position.shape()) && position.dtype() == DType::kInt32,
        "int32, some of the dimensions " + others.to_string());
  check("the parent", parent,
        entries.contains_all(parent.shape()) && parent.shape().contains(row.name) &&
            parent.dtype() == DType::kInt32,
        fmt::format("int32, `{}` and some of the dimensions {}", row.name, others.to_string()));
  check("the number of common entries", common,
        common.shape() == parent.shape() && common.dtype() == DType::kInt32,
        "int32 " + parent.shape().to_string());
}

std::string UpdateKvCache::attributes() const { return fmt::format("rows={}, memory={}", rows, memory); }

ShardingRule UpdateKvCache::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(with_whole_dimension(shard_by_name(*this, request), *this, rows), *this,
                              memory);
}

Tensor update_kv_cache(const Tensor& cache, const Tensor& entry, const Tensor& position, const Tensor& parent,
                       const Tensor& common, DimensionName rows, DimensionName memory) {
  return cache.graph().add<UpdateKvCache>(cache, entry, position, parent, common, rows, memory).output();
}

}  // namespace mtf
