#include "engine/ops/cumsum.h"

#include <fmt/format.h>

#include "engine/ops/whole_dimension.h"

namespace mtf {

Cumsum::Cumsum(const Tensor& x, std::string_view dimension, CumsumOptions options)
    : OperationBase({x}, {{x.shape(), x.dtype()}}),
      dimension(x.shape().dimension(dimension).name),
      options(options) {}

std::string Cumsum::attributes() const {
  return fmt::format("dimension={}{}{}", dimension, options.exclusive ? ", exclusive" : "",
                     options.reverse ? ", reverse" : "");
}

Tensors Cumsum::gradient(const Tensors& dy) const {
  return {cumsum(dy[0], dimension, {.exclusive = options.exclusive, .reverse = !options.reverse})};
}

ShardingRule Cumsum::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(shard_linear(*this, request, {0}), *this, dimension);
}

Tensor cumsum(const Tensor& x, DimensionName dimension, CumsumOptions options) {
  return x.graph().add<Cumsum>(x, dimension, options).output();
}

}  // namespace mtf
