#include "engine/ops/expert_product.h"

#include <fmt/format.h>

#include "engine/graph/matmul_precision_scope.h"
#include "engine/ops/cast.h"

namespace mtf {
namespace {

const Dimension& last(const Shape& shape) { return shape[shape.rank() - 1]; }

/// Throws Error unless the operands have the dimensions of expert_product.h.
void check_rows(std::string_view operation, const Tensor& x, const Tensor& offsets,
                const Dimension& experts) {
  const Shape &rows = x.shape(), &ends = offsets.shape();
  const int rank = rows.rank();
  const bool fits = rank >= 3 && ends.rank() == rank - 1 && offsets.dtype() == DType::kInt32 &&
                    ends - last(ends) == rows - rows[rank - 1] - rows[rank - 2] &&
                    rows[0].name == experts.name && rows[0].size * (last(ends).size - 1) == experts.size;
  if (fits) return;
  shape_error(operation,
              fmt::format("rows {} and offsets {} {} do not belong to {} experts", rows.to_string(),
                          name_of(offsets.dtype()), ends.to_string(), experts.size));
}

OutputInfo product_of(const Tensor& x, const Tensor& w, const Tensor& offsets) {
  const Shape& matrix = w.shape();
  if (matrix.rank() != 3 || x.dtype() != w.dtype() ||
      (last(x.shape()) != matrix[1] && last(x.shape()) != matrix[2]))
    shape_error("expert_product",
                fmt::format("x is {} {}, the matrices are {} {}", name_of(x.dtype()), x.shape().to_string(),
                            name_of(w.dtype()), matrix.to_string()),
                "[experts, in, out]");
  check_rows("expert_product", x, offsets, matrix[0]);
  const Dimension& in = last(x.shape());
  return {x.shape() - in + (in == matrix[1] ? matrix[2] : matrix[1]), x.dtype()};
}

OutputInfo outer_product_of(const Tensor& x, const Tensor& y, const Tensor& offsets, const Dimension& experts,
                            DType dtype) {
  check_rows("expert_outer_product", x, offsets, experts);
  const Shape rows = x.shape() - last(x.shape());
  if (y.shape() != rows + last(y.shape()) || x.dtype() != y.dtype() || x.shape() == y.shape())
    shape_error("expert_outer_product",
                fmt::format("x is {} {}, y is {} {}", name_of(x.dtype()), x.shape().to_string(),
                            name_of(y.dtype()), y.shape().to_string()));
  return {Shape{experts, last(x.shape()), last(y.shape())}, dtype};
}

/// Multiply-adds of so many rows with one matrix each, and what is read and written.
Cost cost_of(const Cost& bytes, const Shape& rows, int64_t out, double filled) {
  return {2 * filled * static_cast<double>(rows.size()) * static_cast<double>(out), bytes.bytes};
}

}  // namespace

ExpertProduct::ExpertProduct(const Tensor& x, const Tensor& w, const Tensor& offsets, double filled)
    : OperationBase({x, w, offsets}, {product_of(x, w, offsets)}),
      filled(filled),
      precision(precision_for(x.dtype(), x.graph().matmul_precision())) {}

Tensors ExpertProduct::gradient(const Tensors& dy) const {
  const MatmulPrecisionScope scope(graph(), precision);
  const Shape& matrix = input(1).shape();
  const bool forward = last(input(0).shape()) == matrix[1];
  const Tensor &x = forward ? input(0) : dy[0], &y = forward ? dy[0] : input(0);
  return {expert_product(dy[0], input(1), input(2), filled),
          expert_outer_product(x, y, input(2), matrix[0], filled),
          {}};
}

ShardingRule ExpertProduct::sharding_rule(const ShardingRequest& request) const {
  return shard_reduction(*this, request, {last(input(0).shape())}, Reduction::kSum);
}

Shape ExpertProduct::joint_shape() const {
  return (input(0).shape() - input(0).shape()[0]) + input(1).shape();
}

Cost ExpertProduct::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  return cost_of(Operation::cost(inputs, outputs), inputs[0], last(outputs[0]).size, filled);
}

Tensor expert_product(const Tensor& x, const Tensor& w, const Tensor& offsets, double filled) {
  return x.graph().add<ExpertProduct>(x, w, offsets, filled).output();
}

ExpertOuterProduct::ExpertOuterProduct(const Tensor& x, const Tensor& y, const Tensor& offsets,
                                       const Dimension& experts, DType dtype, double filled)
    : OperationBase({x, y, offsets}, {outer_product_of(x, y, offsets, experts, dtype)}),
      filled(filled),
      precision(precision_for(x.dtype(), x.graph().matmul_precision())) {}

Tensor ExpertOuterProduct::wide_sum() const {
  const MatmulPrecisionScope scope(graph(), precision);
  return graph()
      .add<ExpertOuterProduct>(input(0), input(1), input(2), output().shape()[0], DType::kFloat32, filled)
      .output();
}

Tensors ExpertOuterProduct::gradient(const Tensors& dw) const {
  const MatmulPrecisionScope scope(graph(), precision);
  const Tensor matrix = cast(dw[0], input(0).dtype());
  return {expert_product(input(1), matrix, input(2), filled),
          expert_product(input(0), matrix, input(2), filled),
          {}};
}

ShardingRule ExpertOuterProduct::sharding_rule(const ShardingRequest& request) const {
  const Shape& x = input(0).shape();
  return shard_reduction(*this, request, x - x[0] - last(x), Reduction::kSum);
}

Shape ExpertOuterProduct::joint_shape() const {
  const Shape& x = input(0).shape();
  return (x - x[0]) + last(input(1).shape()) + output().shape()[0];
}

Cost ExpertOuterProduct::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  return cost_of(Operation::cost(inputs, outputs), inputs[0], last(inputs[1]).size, filled);
}

Tensor expert_outer_product(const Tensor& x, const Tensor& y, const Tensor& offsets, const Dimension& experts,
                            double filled) {
  return x.graph().add<ExpertOuterProduct>(x, y, offsets, experts, x.dtype(), filled).output();
}

}  // namespace mtf
