#include "engine/ops/top_k.h"

#include <fmt/format.h>

#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"
#include "engine/ops/whole_dimension.h"

namespace mtf {
namespace {

Shape ranked(const Tensor& x, std::string_view dimension, const Dimension& k) {
  const Dimension& d = x.shape().dimension(dimension);
  if (k.size < 1 || k.size > d.size) {
    shape_error("top_k", fmt::format("`{}` = {} has no {} largest entries", dimension, d.size, k.size));
  }
  const Shape others = x.shape() - d;
  if (others.contains(k.name)) {
    shape_error("top_k", fmt::format("{} already has a dimension `{}`", others.to_string(), k.name));
  }
  return others + k;
}

/// Returns a temporary dimension of one entry, which is removed again at once.
Dimension only_rank(int64_t size) { return {"_rank", size}; }

}  // namespace

TopK::TopK(const Tensor& x, std::string_view dimension, const Dimension& k_dimension)
    : OperationBase({x}, {{ranked(x, dimension, k_dimension), x.dtype()},
                          {ranked(x, dimension, k_dimension), DType::kInt32}}),
      dimension(dimension),
      k_dimension(k_dimension.name) {}

std::string TopK::attributes() const {
  return fmt::format("dimension={}, k={}", dimension, outputs()[0].shape.dimension(k_dimension).size);
}

Tensors TopK::gradient(const Tensors& dy) const {
  if (!dy[0]) return {Tensor()};
  return {graph().add<TopKGradient>(dy[0], output(1), dimension, k_dimension, input(0).shape()).output()};
}

ShardingRule TopK::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(shard_by_name(*this, request), *this, dimension);
}

TopKResult top_k(const Tensor& x, DimensionName dimension, const Dimension& k_dimension) {
  const TopK& operation = x.graph().add<TopK>(x, dimension, k_dimension);
  return {operation.output(0), operation.output(1)};
}

TopKResult top_1(const Tensor& x, DimensionName dimension) {
  const Shape others = x.shape() - x.shape().dimension(dimension);
  const TopKResult top = top_k(x, dimension, only_rank(1));
  return {reshape(top.values, others), reshape(top.indices, others)};
}

Tensor argmax(const Tensor& x, DimensionName dimension) { return top_1(x, dimension).indices; }

Tensor nth_largest_element(const Tensor& x, int64_t n, DimensionName dimension) {
  const Dimension& d = x.shape().dimension(dimension);
  if (n < 0 || n >= d.size) {
    shape_error("nth_largest_element", fmt::format("`{}` = {} has no entry of rank {}", dimension, d.size, n),
                "ranks count from 0");
  }
  const Tensor values = top_k(x, dimension, only_rank(n + 1)).values;
  return reshape(slice(values, only_rank(1).name, n, 1), x.shape() - d);
}

Tensor nth_smallest_element(const Tensor& x, int64_t n, DimensionName dimension) {
  return negative(nth_largest_element(negative(x), n, dimension));
}

TopKGradient::TopKGradient(const Tensor& dvalues, const Tensor& indices, std::string_view dimension,
                           std::string_view k_dimension, const Shape& x)
    : OperationBase({dvalues, indices}, {{x, dvalues.dtype()}}),
      dimension(dimension),
      k_dimension(k_dimension) {}

std::string TopKGradient::attributes() const { return "dimension=" + dimension; }

Tensors TopKGradient::gradient(const Tensors& ddx) const {
  return {gather(ddx[0], input(1), dimension, input(0).shape()), {}};
}

}  // namespace mtf
