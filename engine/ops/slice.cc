#include "engine/ops/slice.h"

#include <fmt/format.h>

namespace mtf {
namespace {

OutputInfo sliced(const Tensor& x, std::string_view dimension, int64_t begin, int64_t size) {
  const Dimension& d = x.shape().dimension(dimension);
  if (begin < 0 || size < 1 || begin > d.size - size) {
    shape_error("slice", fmt::format("`{}` = {} has no range of {} entries from {} on", dimension, d.size,
                                     size, begin));
  }
  return {x.shape().resized(dimension, size), x.dtype()};
}

OutputInfo padded(const Tensor& x, std::string_view dimension, int64_t before, int64_t after) {
  if (before < 0 || after < 0) {
    shape_error("pad", fmt::format("`{}` cannot be padded with {} and {} zeros", dimension, before, after));
  }
  return {x.shape().resized(dimension, x.shape().dimension(dimension).size + before + after), x.dtype()};
}

}  // namespace

DimensionSlice::DimensionSlice(const Tensor& x, std::string_view dimension, int64_t begin, int64_t size)
    : OperationBase({x}, {sliced(x, dimension, begin, size)}), dimension(dimension), begin(begin) {}

std::string DimensionSlice::attributes() const {
  return fmt::format("dimension={}, begin={}, size={}", dimension, begin,
                     outputs()[0].shape.dimension(dimension).size);
}

Tensors DimensionSlice::gradient(const Tensors& dy) const {
  const int64_t size = outputs()[0].shape.dimension(dimension).size;
  return {pad(dy[0], dimension, begin, input(0).shape().dimension(dimension).size - begin - size)};
}

ShardingRule DimensionSlice::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request, {0});
}

Tensor slice(const Tensor& x, DimensionName dimension, int64_t begin, int64_t size) {
  if (begin == 0 && size == x.shape().dimension(dimension).size) return x;
  return x.graph().add<DimensionSlice>(x, dimension, begin, size).output();
}

Pad::Pad(const Tensor& x, std::string_view dimension, int64_t before, int64_t after)
    : OperationBase({x}, {padded(x, dimension, before, after)}), dimension(dimension), before(before) {}

std::string Pad::attributes() const {
  const int64_t added =
      outputs()[0].shape.dimension(dimension).size - input(0).shape().dimension(dimension).size;
  return fmt::format("dimension={}, before={}, after={}", dimension, before, added - before);
}

Tensors Pad::gradient(const Tensors& dy) const {
  return {slice(dy[0], dimension, before, input(0).shape().dimension(dimension).size)};
}

ShardingRule Pad::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request, {0});
}

Tensor pad(const Tensor& x, DimensionName dimension, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  return x.graph().add<Pad>(x, dimension, before, after).output();
}

}  // namespace mtf
