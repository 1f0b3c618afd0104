#include "tests/examples/reverse.h"

#include "engine/ops/whole_dimension.h"

namespace mtf {

Reverse::Reverse(const Tensor& x, std::string_view dimension)
    : OperationBase({x}, {{x.shape(), x.dtype()}}), dimension(x.shape().dimension(dimension).name) {}

Tensors Reverse::gradient(const Tensors& dy) const { return {reverse(dy[0], dimension)}; }

ShardingRule Reverse::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(shard_linear(*this, request, {0}), *this, dimension);
}

Tensor reverse(const Tensor& x, DimensionName dimension) {
  return x.graph().add<Reverse>(x, dimension).output();
}

}  // namespace mtf
