#include "engine/ops/dynamic_update_slice.h"

#include <fmt/format.h>

#include "engine/ops/binary.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/whole_dimension.h"

namespace mtf {

DynamicUpdateSlice::DynamicUpdateSlice(const Tensor& x, const Tensor& entry, const Tensor& index,
                                       std::string_view dimension)
    : OperationBase({x, entry, index}, {{x.shape(), x.dtype()}}), dimension(dimension) {
  const Shape others = x.shape() - x.shape().dimension(dimension);
  if (!same_dimensions(others, entry.shape()) || entry.dtype() != x.dtype()) {
    shape_error("dynamic_update_slice",
                fmt::format("the entry is {} {}", name_of(entry.dtype()), entry.shape().to_string()),
                fmt::format("{} {}", name_of(x.dtype()), others.to_string()));
  }
  if (!others.contains_all(index.shape()) || index.dtype() != DType::kInt32) {
    shape_error("dynamic_update_slice",
                fmt::format("the index is {} {}", name_of(index.dtype()), index.shape().to_string()),
                "int32, some of the dimensions " + others.to_string());
  }
}

Tensors DynamicUpdateSlice::gradient(const Tensors& dy) const {
  const Dimension& d = input(0).shape().dimension(dimension);
  const Tensor taken = equal(input(2), range(graph(), d), input(2).shape() + Shape{d});
  const Tensor zeros = graph().constant(0, dy[0].dtype(), dy[0].shape());
  const Tensor of_entry = reduce_sum(where(taken, dy[0], zeros), input(1).shape());
  return {where(taken, zeros, dy[0]), of_entry, {}};
}

ShardingRule DynamicUpdateSlice::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(shard_by_name(*this, request), *this, dimension);
}

Tensor dynamic_update_slice(const Tensor& x, const Tensor& entry, const Tensor& index,
                            DimensionName dimension) {
  return x.graph().add<DynamicUpdateSlice>(x, entry, index, dimension).output();
}

}  // namespace mtf
