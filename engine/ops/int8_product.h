// Products of activations and weights that are rounded to 8 bits (precision.infer: int8), with exact sums of integers:
//
//   const Quantized codes = quantize_rows(x, {d_model});                          // a scale for each row
//   const Quantized weight = quantize_weight(w, {hidden}, {d_model}, true);       // a scale for each column
//   Tensor y = int8_product(codes, weight);                                       // float32 [rows.., hidden]
//
// A code is the integer nearest to value / scale, -127 to 127; a scale is the largest magnitude of its row or column / 127.
// The sum of products of codes is a 32-bit integer, whatever its order, so layouts, threads and instruction sets do not
// change results: y = (sum * scale of the row) * scale of the column, each multiplication rounded to float32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf {

/// Codes, and the float32 scales of their rows or columns.
struct Quantized {
  Tensor codes, scale;
};

/// The most products of codes that an exact sum may have.
inline constexpr int64_t kMostInt8Products = 1 << 16;

/// Codes of a weight are [columns.., summed..], or in blocks, in the order in which a kernel reads them: [columns.., summed..,
/// kBlockColumns, kBlockDepths], where the last of the columns counts groups of kColumnsOfBlock and the last of the summed
/// dimensions groups of kDepthsOfBlock. The order changes no result.
inline constexpr std::string_view kBlockColumns = "block_columns", kBlockDepths = "block_depths";
inline constexpr int64_t kColumnsOfBlock = 16, kDepthsOfBlock = 4;

/// Returns `shape` with the last dimension counting groups of `group` entries.
Shape grouped(const Shape& shape, int64_t group);

/// Returns the shape of the codes of a weight. In blocks the sizes of the last dimensions must be multiples of those of a
/// block.
Shape int8_weight_shape(const Shape& columns, const Shape& summed, bool in_blocks);

/// Rounds x (float32 or bfloat16), with one scale for each of its rows along the dimensions `summed`. Codes are int8, with
/// the dimensions `summed` last and in this order. Where an entry of a row is not finite, its scale is not either.
Quantized quantize_rows(const Tensor& x, const Shape& summed);
/// Rounds w (float32 or bfloat16), whose dimensions are `columns` and `summed`, with one scale for each entry of `columns`.
/// Codes are uint8: the signed code + 128.
Quantized quantize_weight(const Tensor& w, const Shape& columns, const Shape& summed, bool in_blocks);
/// Returns the product, float32 [rows of x.., columns of the weight], summed over the dimensions of x.codes that x.scale
/// lacks, which the weight has in the same order. They have at most kMostInt8Products entries.
Tensor int8_product(const Quantized& x, const Quantized& weight);

/// Inputs: x and, unless it finds them, the largest magnitudes of its rows. Outputs: codes, scales.
class QuantizeRows final : public OperationBase<QuantizeRows> {
 public:
  QuantizeRows(Tensors inputs, const Shape& rows, const Shape& summed);
  std::string_view name() const override { return "quantize_rows"; }
  Tensors gradient(const Tensors& dy) const override;
  /// Where a summed dimension is split: positions exchange the largest magnitudes.
  bool needs_expansion(const ShardingRequest& request) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;

  Shape summed;
};

/// Inputs: w, the largest magnitudes of its columns. Outputs: codes, scales.
class QuantizeWeight final : public OperationBase<QuantizeWeight> {
 public:
  QuantizeWeight(const Tensor& w, const Tensor& largest, const Shape& summed, bool in_blocks);
  std::string_view name() const override { return "quantize_weight"; }
  Tensors gradient(const Tensors& dy) const override;
  std::vector<std::string> unsplittable() const override;

  Shape summed;
};

/// Inputs: codes of x, codes of the weight and, if the sums are scaled, the scales of the rows and of the columns. Output:
/// int32 sums, or the float32 product.
class Int8Product final : public OperationBase<Int8Product> {
 public:
  Int8Product(const Tensors& inputs, const Shape& output);
  std::string_view name() const override { return is_scaled() ? "int8_product" : "int8_sums"; }
  bool is_scaled() const { return inputs().size() > 2; }
  Tensors gradient(const Tensors& dy) const override;
  /// Sums are partial over mesh dimensions that split summed dimensions.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  /// Where a summed dimension is split, integers are added before they are scaled.
  bool needs_expansion(const ShardingRequest& request) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;
  std::vector<std::string> unsplittable() const override;
  Shape joint_shape() const override;
  /// Counts 2 FLOPs for each product.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  Shape rows, summed, columns;  ///< the dimensions of the operands
};

}  // namespace mtf
