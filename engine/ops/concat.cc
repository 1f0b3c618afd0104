#include "engine/ops/concat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "engine/ops/broadcast.h"

namespace mtf {
namespace {

OutputInfo joined(const Tensors& xs, std::string_view dimension) {
  if (xs.empty()) shape_error("concat", "nothing to join");
  const Shape& first = xs[0].shape();
  int64_t size = 0;
  for (const Tensor& x : xs) {
    const int64_t part = x.shape().dimension(dimension).size;
    if (x.dtype() != xs[0].dtype() || x.shape().resized(dimension, 1) != first.resized(dimension, 1)) {
      shape_error("concat",
                  fmt::format("{} {} and {} {} do not differ in `{}` alone", short_name(xs[0].dtype()),
                              first.to_string(), short_name(x.dtype()), x.shape().to_string(), dimension));
    }
    size += part;
  }
  return {first.resized(dimension, size), xs[0].dtype()};
}

std::vector<OutputInfo> cut(const Tensor& x, std::string_view dimension, const std::vector<int64_t>& sizes) {
  const int64_t size = x.shape().dimension(dimension).size;
  if (sizes.empty() || std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != size) {
    shape_error("split", fmt::format("the sizes {} do not add up to `{}` = {}", fmt::join(sizes, " + "),
                                     dimension, size));
  }
  std::vector<OutputInfo> parts;
  for (int64_t part : sizes) parts.push_back({x.shape().resized(dimension, part), x.dtype()});
  return parts;
}

}  // namespace

Concat::Concat(const Tensors& xs, std::string_view dimension)
    : OperationBase(xs, {joined(xs, dimension)}), dimension(dimension) {}

Tensors Concat::gradient(const Tensors& dy) const {
  std::vector<int64_t> sizes;
  for (const Tensor& x : inputs()) sizes.push_back(x.shape().dimension(dimension).size);
  return split(dy[0], dimension, sizes);
}

ShardingRule Concat::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request);
}

Tensor concat(const Tensors& xs, DimensionName dimension) {
  if (xs.size() == 1) return xs[0];
  Tensors aligned;
  for (const Tensor& x : xs) {
    std::vector<Dimension> order;
    for (const Dimension& d : xs[0].shape()) {
      order.push_back(x.shape().contains(d.name) ? x.shape().dimension(d.name) : d);
    }
    const Shape shape(order);
    aligned.push_back(same_dimensions(shape, x.shape()) && shape != x.shape() ? transpose(x, shape) : x);
  }
  if (aligned.empty()) shape_error("concat", "nothing to join");
  return xs[0].graph().add<Concat>(aligned, dimension).output();
}

Split::Split(const Tensor& x, std::string_view dimension, std::vector<int64_t> sizes)
    : OperationBase({x}, cut(x, dimension, sizes)), dimension(dimension), sizes(std::move(sizes)) {}

std::string Split::attributes() const {
  return fmt::format("dimension={}, sizes={}", dimension, fmt::join(sizes, "+"));
}

Tensors Split::gradient(const Tensors& dy) const { return {concat(with_zeros(*this, dy), dimension)}; }

ShardingRule Split::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request, {0});
}

Tensors split(const Tensor& x, DimensionName dimension, const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1 && sizes[0] == x.shape().dimension(dimension).size) return {x};
  const Split& operation = x.graph().add<Split>(x, dimension, sizes);
  Tensors parts;
  for (size_t i = 0; i < sizes.size(); ++i) parts.push_back(operation.output(static_cast<int>(i)));
  return parts;
}

Tensors split(const Tensor& x, DimensionName dimension, int64_t parts) {
  const int64_t size = x.shape().dimension(dimension).size;
  if (parts < 1 || size % parts != 0) {
    shape_error("split", fmt::format("`{}` = {} cannot be cut into {} equal parts", dimension, size, parts));
  }
  return split(x, dimension, std::vector<int64_t>(parts, size / parts));
}

}  // namespace mtf
