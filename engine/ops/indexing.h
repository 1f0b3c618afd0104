// Indices as data: one-hot vectors, ranges and table look-up. Ids are int32; an id outside 0 .. size-1
// selects nothing.
//
//   Tensor embedding = gather(table, ids, "vocab");   // table: [vocab, d_model], ids: [batch, length]
//                                                     // -> [batch, length, d_model]
//
// If a table is split along `vocab`, each position looks up the rows that it has, so that the result is a
// partial sum. The gradient adds rows in the order of the ids, whatever the number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Maps ids [...] (int32) to [..., dimension]: `on` where the index along `dimension` equals the id,
/// otherwise `off` (everywhere for an id out of range).
Tensor one_hot(const Tensor& ids, const Dimension& dimension, double on = 1, double off = 0,
               DType dtype = DType::kFloat32);

/// Returns 0, 1, ..., size - 1 with shape [dimension].
Tensor range(Graph& graph, const Dimension& dimension, DType dtype = DType::kInt32);

/// Returns entry ids[...] of `dimension` of `table`; zeros for an id out of range. The result has the
/// dimensions of ids, then those of table without `dimension`; dimensions that both have are matched.
/// `output` may specify another order.
Tensor gather(const Tensor& table, const Tensor& ids, DimensionName dimension);
Tensor gather(const Tensor& table, const Tensor& ids, DimensionName dimension, const Shape& output);
/// Returns one entry, without `dimension`.
Tensor gather(const Tensor& table, int64_t id, DimensionName dimension);

class OneHot final : public OperationBase<OneHot> {
 public:
  OneHot(const Tensor& ids, const Dimension& dimension, double on, double off, DType dtype);
  std::string_view name() const override { return "one_hot"; }
  std::string attributes() const override;

  std::string dimension;
  double on, off;
};

class Range final : public OperationBase<Range> {
 public:
  Range(const Dimension& dimension, DType dtype) : OperationBase({}, {{Shape{dimension}, dtype}}) {}
  std::string_view name() const override { return "range"; }
};

/// Inputs: table, ids.
class Gather final : public OperationBase<Gather> {
 public:
  Gather(const Tensor& table, const Tensor& ids, std::string_view dimension, const Shape& output);
  std::string_view name() const override { return "gather"; }
  std::string attributes() const override { return "dimension=" + dimension; }
  Tensors gradient(const Tensors& dy) const override;
  /// If `dimension` is split, the output is a partial sum.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  Shape joint_shape() const override { return input(0).shape() + input(1).shape(); }

  std::string dimension;
};

/// Sums dy over the places where ids selects each entry of the table. Inputs: dy, ids.
class GatherGradient final : public OperationBase<GatherGradient> {
 public:
  /// `dtype` is that of dy, or float32 if that is bfloat16.
  GatherGradient(const Tensor& dy, const Tensor& ids, std::string_view dimension, const Shape& table,
                 DType dtype);
  std::string_view name() const override { return "gather_gradient"; }
  Tensor wide_sum() const override;
  std::string attributes() const override { return "dimension=" + dimension; }
  Tensors gradient(const Tensors& ddtable) const override;
  /// If a dimension of ids that the table lacks is split, the output is a partial sum.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  Shape joint_shape() const override { return outputs()[0].shape + input(1).shape(); }

  std::string dimension;
};

}  // namespace mtf
