// Generalised matrix multiplication over dimension names.
//
//   einsum({x, w}, {batch, hidden});          // x: [batch, pixels], w: [pixels, hidden]
//   einsum({q, k}, {batch, heads, query, key});
//   einsum_over({a, b, c}, {j});              // sums over j, keeps all other dimensions
//
// These functions normalise a contraction: a dimension that only one input has and the output lacks is summed
// first; more than two inputs are contracted pairwise in a cheap order; a product without summed dimensions
// is a multiply; dimensions that no input has are broadcast at the end. What remains is a contraction of two
// inputs, the class Einsum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf {

/// A weight whose columns are stored in strips, [columns / kStripColumns, summed.., strip=kStripColumns], is read in its order
/// in memory, and need not be packed, if the strips come last in the output, too: [rows.., columns / kStripColumns, strip].
inline constexpr int64_t kStripColumns = 32;

/// Broadcasts the inputs to the union of their dimensions, multiplies them, and sums the product down to
/// `output`, which may have dimensions that no input has (the result is repeated along them). Throws Error if
/// dtypes differ or a dimension has several sizes.
Tensor einsum(const Tensors& inputs, const Shape& output);
/// Sums over the dimensions that two or more inputs have; the others stay, in order of first appearance.
Tensor einsum(const Tensors& inputs);
/// Sums over `reduced`; the other dimensions stay, in order of first appearance.
Tensor einsum_over(const Tensors& inputs, const Shape& reduced);
/// Like einsum(inputs, output); throws Error unless exactly the dimensions `reduced` are summed.
Tensor einsum(const Tensors& inputs, const Shape& output, const Shape& reduced);
/// Returns einsum({a, b}).
Tensor matmul(const Tensor& a, const Tensor& b);

/// A contraction of two inputs. Each dimension is in two or three of (a, b, output): batch dimensions in all
/// three, rows in a and output, columns in b and output, summed dimensions in a and b. There is at least one
/// summed dimension. The result has the dtype of the inputs, or float32 if they are bfloat16.
class Einsum final : public OperationBase<Einsum> {
 public:
  Einsum(const Tensor& a, const Tensor& b, const Shape& output) : Einsum(a, b, output, a.dtype()) {}
  Einsum(const Tensor& a, const Tensor& b, const Shape& output, DType dtype)
      : OperationBase({a, b}, {{output, dtype}}), precision(precision_of(a, b)) {}
  std::string_view name() const override { return "einsum"; }
  Tensor wide_sum() const override;
  std::string attributes() const override { return std::string(short_name(precision)); }

  /// Returns d a = einsum({dy, b}) with the shape of a, and likewise for b.
  Tensors gradient(const Tensors& dy) const override;
  /// Any dimension may be split. The output is a partial sum over mesh dimensions that split summed
  /// dimensions. A partial sum of an input passes through if the other input is the same along that mesh
  /// dimension and the output is not larger than the input.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  /// Returns the union of the dimensions of both inputs.
  Shape joint_shape() const override;
  /// Counts 2 FLOPs for each element of the union.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  MatmulPrecision precision;  ///< kFull without rows and columns: inner products are no matrix products

 private:
  static MatmulPrecision precision_of(const Tensor& a, const Tensor& b);
};

/// The dimensions of a contraction by class; `columns` are in the order of b, the others in the order of a.
struct ContractionClasses {
  Shape batch, rows, columns, summed;
};
ContractionClasses classify(const Shape& a, const Shape& b, const Shape& output);

}  // namespace mtf
