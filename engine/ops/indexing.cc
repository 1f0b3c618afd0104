#include "engine/ops/indexing.h"

#include <fmt/format.h>

#include "engine/ops/cast.h"

namespace mtf {
namespace {

void check_ids(std::string_view operation, const Tensor& ids) {
  if (ids.dtype() != DType::kInt32) {
    shape_error(operation, fmt::format("ids are {}", name_of(ids.dtype())), "int32");
  }
}

OutputInfo gathered(const Tensor& table, const Tensor& ids, std::string_view dimension, const Shape& output) {
  check_ids("gather", ids);
  const Dimension& d = table.shape().dimension(dimension);
  if (ids.shape().contains(d.name)) {
    shape_error("gather", fmt::format("ids {} have the dimension `{}` that they look up",
                                      ids.shape().to_string(), dimension));
  }
  const Shape expected = ids.shape() + (table.shape() - d);
  if (!same_dimensions(expected, output)) {
    shape_error("gather", fmt::format("the result has the dimensions {}, not {}", expected.to_string(),
                                      output.to_string()));
  }
  return {output, table.dtype()};
}

}  // namespace

OneHot::OneHot(const Tensor& ids, const Dimension& dimension, double on, double off, DType dtype)
    : OperationBase({ids}, {{ids.shape() + dimension, dtype}}), dimension(dimension.name), on(on), off(off) {
  check_ids("one_hot", ids);
  if (ids.shape().contains(dimension.name)) {
    shape_error("one_hot",
                fmt::format("ids {} already have a dimension `{}`", ids.shape().to_string(), dimension.name));
  }
}

std::string OneHot::attributes() const {
  return fmt::format("dimension={}, on={}, off={}", dimension, on, off);
}

Tensor one_hot(const Tensor& ids, const Dimension& dimension, double on, double off, DType dtype) {
  return ids.graph().add<OneHot>(ids, dimension, on, off, dtype).output();
}

Tensor range(Graph& graph, const Dimension& dimension, DType dtype) {
  return graph.add<Range>(dimension, dtype).output();
}

Gather::Gather(const Tensor& table, const Tensor& ids, std::string_view dimension, const Shape& output)
    : OperationBase({table, ids}, {gathered(table, ids, dimension, output)}), dimension(dimension) {}

Tensors Gather::gradient(const Tensors& dy) const {
  return {graph().add<GatherGradient>(dy[0], input(1), dimension, input(0).shape(), dy[0].dtype()).output(),
          {}};
}

ShardingRule Gather::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, {input(0).shape().dimension(dimension)}, Reduction::kSum);
}

Tensor gather(const Tensor& table, const Tensor& ids, DimensionName dimension, const Shape& output) {
  if (table.dtype() == DType::kBool) {
    return cast(gather(cast(table, DType::kInt32), ids, dimension, output), DType::kBool);
  }
  return table.graph().add<Gather>(table, ids, dimension, output).output();
}

Tensor gather(const Tensor& table, const Tensor& ids, DimensionName dimension) {
  return gather(table, ids, dimension, ids.shape() + (table.shape() - table.shape().dimension(dimension)));
}

Tensor gather(const Tensor& table, int64_t id, DimensionName dimension) {
  return gather(table, table.graph().constant(static_cast<double>(id), DType::kInt32), dimension);
}

GatherGradient::GatherGradient(const Tensor& dy, const Tensor& ids, std::string_view dimension,
                               const Shape& table, DType dtype)
    : OperationBase({dy, ids}, {{table, dtype}}), dimension(dimension) {}

Tensor GatherGradient::wide_sum() const {
  return graph()
      .add<GatherGradient>(input(0), input(1), dimension, output().shape(), DType::kFloat32)
      .output();
}

Tensors GatherGradient::gradient(const Tensors& ddtable) const {
  return {gather(cast(ddtable[0], input(0).dtype()), input(1), dimension, input(0).shape()), {}};
}

ShardingRule GatherGradient::sharding_rule(const ShardingRequest& request) const {
  std::vector<Dimension> summed;
  for (const Dimension& d : input(1).shape()) {
    if (!outputs()[0].shape.contains(d.name)) summed.push_back(d);
  }
  return shard_reduction(*this, request, summed, Reduction::kSum);
}

}  // namespace mtf
