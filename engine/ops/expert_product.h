// Products of rows that are sorted by expert with the matrix of their expert: the grouped matrix product of Gale et al.,
// MegaBlocks, 2022. Only the matrices of experts that have rows are read.
//
//   const Slots slots = assign_slots(...);                                    // routing.h
//   Tensor hidden = expert_product(dispatch(x, slots), wi, slots.offsets);    // wi: [experts, d_model, expert_hidden]
//
// Dimensions of the operands, in this order:
//   x        [block, rows.., capacity, in]        w    [experts, in, out] or [experts, out, in]
//   offsets  [block, rows.., expert_offsets]      y    [block, rows.., capacity, out]
// The rows of a block from offsets[e] to offsets[e + 1] belong to its expert e. `block` and `experts` have one
// name; blocks have equal numbers of experts. Rows of nobody give zeros.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf {

/// Returns x * w for each row. `filled`: the expected share of rows that belong to an expert, for costs.
Tensor expert_product(const Tensor& x, const Tensor& w, const Tensor& offsets, double filled = 1);
/// Returns for each expert the sum over its rows of the outer product of x and y: [experts, in of x, in of y].
Tensor expert_outer_product(const Tensor& x, const Tensor& y, const Tensor& offsets, const Dimension& experts,
                            double filled = 1);

/// Inputs: x, w, offsets.
class ExpertProduct final : public OperationBase<ExpertProduct> {
 public:
  ExpertProduct(const Tensor& x, const Tensor& w, const Tensor& offsets, double filled);
  std::string_view name() const override { return "expert_product"; }
  std::string attributes() const override { return std::string(short_name(precision)); }
  Tensors gradient(const Tensors& dy) const override;
  /// If `in` is split, the output is a partial sum.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  Shape joint_shape() const override;
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  double filled;
  MatmulPrecision precision;
};

/// Inputs: x, y, offsets.
class ExpertOuterProduct final : public OperationBase<ExpertOuterProduct> {
 public:
  ExpertOuterProduct(const Tensor& x, const Tensor& y, const Tensor& offsets, const Dimension& experts,
                     DType dtype, double filled);
  std::string_view name() const override { return "expert_outer_product"; }
  std::string attributes() const override { return std::string(short_name(precision)); }
  Tensor wide_sum() const override;
  Tensors gradient(const Tensors& dw) const override;
  /// If a dimension of rows is split, the output is a partial sum.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  Shape joint_shape() const override;
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  double filled;
  MatmulPrecision precision;
};

}  // namespace mtf
