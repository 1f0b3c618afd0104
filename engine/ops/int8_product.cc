#include "engine/ops/int8_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

std::vector<std::string> block_dimensions() {
  return {std::string(kBlockColumns), std::string(kBlockDepths)};
}

bool splits_any(const Shape& shape, const LayoutMap& rules) {
  return std::ranges::any_of(shape, [&](const Dimension& d) { return rules.splits(d.name); });
}

void check_values(std::string_view operation, const Tensor& x, const Shape& summed) {
  if (x.dtype() != DType::kFloat32 && x.dtype() != DType::kBFloat16)
    shape_error(operation, fmt::format("not defined for {}", name_of(x.dtype())), "float32 or bfloat16");
  if (summed.rank() == 0 || !x.shape().contains_all(summed))
    shape_error(operation, fmt::format("{} has no dimensions {}", x.shape().to_string(), summed.to_string()));
}

}  // namespace

Shape grouped(const Shape& shape, int64_t group) {
  const Dimension& last = shape[shape.rank() - 1];
  return shape.resized(last.name, last.size / group);
}

Shape int8_weight_shape(const Shape& columns, const Shape& summed, bool in_blocks) {
  if (!in_blocks) return columns + summed;
  const auto fits = [](const Shape& shape, int64_t group) {
    return shape.rank() > 0 && shape[shape.rank() - 1].size % group == 0;
  };
  if (!fits(columns, kColumnsOfBlock) || !fits(summed, kDepthsOfBlock)) {
    shape_error("quantize_weight",
                fmt::format("columns {} of depth {} fill no blocks of {} x {}", columns.to_string(),
                            summed.to_string(), kColumnsOfBlock, kDepthsOfBlock));
  }
  return grouped(columns, kColumnsOfBlock) + grouped(summed, kDepthsOfBlock) +
         Shape{{std::string(kBlockColumns), kColumnsOfBlock}, {std::string(kBlockDepths), kDepthsOfBlock}};
}

Quantized quantize_rows(const Tensor& x, const Shape& summed) {
  check_values("quantize_rows", x, summed);
  const QuantizeRows& operation = x.graph().add<QuantizeRows>(Tensors{x}, x.shape() - summed, summed);
  return {operation.output(0), operation.output(1)};
}

Quantized quantize_weight(const Tensor& w, const Shape& columns, const Shape& summed, bool in_blocks) {
  check_values("quantize_weight", w, summed);
  if (!same_dimensions(w.shape(), columns + summed)) {
    shape_error("quantize_weight",
                fmt::format("{} has other dimensions than {} and {}", w.shape().to_string(),
                            columns.to_string(), summed.to_string()));
  }
  // Two passes over the weight take no memory for its magnitudes.
  const Tensor largest = maximum(reduce_max(w, columns), negative(reduce_min(w, columns)));
  const QuantizeWeight& operation =
      w.graph().add<QuantizeWeight>(w, cast(largest, DType::kFloat32), summed, in_blocks);
  return {operation.output(0), operation.output(1)};
}

Tensor int8_product(const Quantized& x, const Quantized& weight) {
  return x.codes.graph()
      .add<Int8Product>(Tensors{x.codes, weight.codes, x.scale, weight.scale},
                        x.scale.shape() + weight.scale.shape())
      .output();
}

QuantizeRows::QuantizeRows(Tensors inputs, const Shape& rows, const Shape& summed)
    : OperationBase(std::move(inputs), {{rows + summed, DType::kInt8}, {rows, DType::kFloat32}}),
      summed(summed) {}

Tensors QuantizeRows::gradient(const Tensors&) const { not_differentiable(*this); }

bool QuantizeRows::needs_expansion(const ShardingRequest& request) const {
  return inputs().size() == 1 && splits_any(summed, request.rules);
}

Tensors QuantizeRows::expand(const Tensors& inputs, const LayoutMap&) const {
  const Shape& rows = outputs()[1].shape;
  const Tensor largest = cast(reduce_max(abs(inputs[0]), rows), DType::kFloat32);
  const QuantizeRows& given = graph().add<QuantizeRows>(Tensors{inputs[0], largest}, rows, summed);
  return {given.output(0), given.output(1)};
}

QuantizeWeight::QuantizeWeight(const Tensor& w, const Tensor& largest, const Shape& summed, bool in_blocks)
    : OperationBase({w, largest}, {{int8_weight_shape(largest.shape(), summed, in_blocks), DType::kUInt8},
                                   {largest.shape(), DType::kFloat32}}),
      summed(summed) {}

Tensors QuantizeWeight::gradient(const Tensors&) const { not_differentiable(*this); }

std::vector<std::string> QuantizeWeight::unsplittable() const { return block_dimensions(); }

Int8Product::Int8Product(const Tensors& inputs, const Shape& output)
    : OperationBase(inputs, {{output, inputs.size() > 2 ? DType::kFloat32 : DType::kInt32}}) {
  const Shape& codes = input(0).shape();
  columns = output - codes;
  rows = output - columns;
  summed = codes - rows;
  const Shape& weight = input(1).shape();
  const bool in_blocks = weight.contains(kBlockColumns);
  if (input(0).dtype() != DType::kInt8 || input(1).dtype() != DType::kUInt8 ||
      weight != int8_weight_shape(columns, summed, in_blocks) || summed.size() > kMostInt8Products) {
    shape_error(name(), fmt::format("no product of {} and {} to {}", codes.to_string(), weight.to_string(),
                                    output.to_string()));
  }
}

Tensors Int8Product::gradient(const Tensors&) const { not_differentiable(*this); }

ShardingRule Int8Product::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, summed, Reduction::kSum);
}

bool Int8Product::needs_expansion(const ShardingRequest& request) const {
  return is_scaled() && splits_any(summed, request.rules);
}

Tensors Int8Product::expand(const Tensors& inputs, const LayoutMap&) const {
  const Shape& shape = outputs()[0].shape;
  const Tensor sums = graph().add<Int8Product>(Tensors{inputs[0], inputs[1]}, shape).output();
  return {multiply(multiply(cast(sums, DType::kFloat32), inputs[2], shape), inputs[3], shape)};
}

std::vector<std::string> Int8Product::unsplittable() const { return block_dimensions(); }

Shape Int8Product::joint_shape() const { return input(0).shape() + columns; }

Cost Int8Product::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  Cost cost = Operation::cost(inputs, outputs);
  cost.flops = 2.0 * static_cast<double>((inputs[0] + outputs[0]).size());
  return cost;
}

}  // namespace mtf
