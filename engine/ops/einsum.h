// Generalised matrix multiplication over dimension names.
//
//   einsum({x, w}, {batch, hidden});          // x: [batch, pixels], w: [pixels, hidden]
//   einsum({q, k}, {batch, heads, query, key});
//   einsum_over({a, b, c}, {j});              // sums j, keeps everything else
//
// The builders normalise: a dimension that one input alone has and the output lacks is summed first, more
// than two inputs are contracted pairwise in a cheap order, a product without summed dimensions is a
// multiply, dimensions that no input has are broadcast at the end. What remains is the class Einsum: a
// contraction of two inputs.
#pragma once

#include "engine/graph/graph.h"

namespace mtf {

/// The inputs are broadcast to the union of their dimensions, multiplied, and summed down to `output`, which
/// may have dimensions that no input has (the result is repeated along them). Throws Error when dtypes differ
/// or sizes disagree.
Tensor einsum(const Tensors& inputs, const Shape& output);
/// Sums the dimensions that two or more inputs have; the others stay, in order of first appearance.
Tensor einsum(const Tensors& inputs);
/// Sums `reduced`; the other dimensions stay, in order of first appearance.
Tensor einsum_over(const Tensors& inputs, const Shape& reduced);
/// As einsum(inputs, output); throws Error unless exactly the dimensions `reduced` are summed.
Tensor einsum(const Tensors& inputs, const Shape& output, const Shape& reduced);
/// einsum({a, b}, output); without `output`, dimensions that both have are summed.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor matmul(const Tensor& a, const Tensor& b, const Shape& output);

/// Contraction of two inputs. Each dimension is in two or three of (a, b, output): batch dimensions in all,
/// rows in a and output, columns in b and output, summed dimensions in a and b. There is at least one summed
/// dimension. The result has the dtype of the inputs, or float32 where they are bfloat16.
class Einsum final : public OperationBase<Einsum> {
 public:
  Einsum(const Tensor& a, const Tensor& b, const Shape& output) : Einsum(a, b, output, a.dtype()) {}
  Einsum(const Tensor& a, const Tensor& b, const Shape& output, DType dtype)
      : OperationBase({a, b}, {{output, dtype}}), tf32(a.dtype() == DType::kFloat32 && a.graph().tf32()) {}
  std::string_view name() const override { return "einsum"; }
  Tensor wide_sum() const override;
  std::string attributes() const override { return tf32 ? "tf32" : ""; }

  /// d a = einsum({dy, b}) with the shape of a, and likewise for b.
  Tensors gradient(const Tensors& dy) const override;
  /// Any dimension may be split. The output is a partial sum over mesh dimensions that split summed
  /// dimensions; a partial input passes through when the other input is the same along that mesh dimension
  /// and the output is no larger than it.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  /// The union of the dimensions of both inputs.
  Shape joint_shape() const override;
  /// 2 FLOPs for each element of the union.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  bool tf32;  ///< Graph::set_tf32
};

/// The dimensions of a contraction by class; in the order of a, those of `columns` in the order of b.
struct ContractionClasses {
  Shape batch, rows, columns, summed;
};
ContractionClasses classify(const Shape& a, const Shape& b, const Shape& output);

}  // namespace mtf
