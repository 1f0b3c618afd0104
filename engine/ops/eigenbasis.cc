#include "engine/ops/eigenbasis.h"

#include <fmt/format.h>

#include "engine/ops/fused.h"
#include "engine/ops/whole_dimension.h"

namespace mtf {

Eigenbasis::Eigenbasis(const Tensor& x, const Tensor& basis, const Tensor& due, std::string_view row,
                       std::string_view column)
    : OperationBase({x, basis, due}, {{x.shape(), x.dtype()}}), row(row), column(column) {}

std::string Eigenbasis::attributes() const { return fmt::format("row={}, column={}", row, column); }

Tensors Eigenbasis::gradient(const Tensors&) const { not_differentiable(*this); }

ShardingRule Eigenbasis::sharding_rule(const ShardingRequest& request) const {
  return with_whole_dimension(with_whole_dimension(shard_by_name(*this, request), *this, row), *this, column);
}

Tensor eigenbasis(const Tensor& x, const Tensor& basis, const Tensor& due, DimensionName row,
                  DimensionName column) {
  const Dimension &rows = x.shape().dimension(row), &columns = x.shape().dimension(column);
  if (rows.name == columns.name || rows.size != columns.size) {
    shape_error("eigenbasis",
                fmt::format("`{}` = {} and `{}` = {}", rows.name, rows.size, columns.name, columns.size),
                "two dimensions of one size");
  }
  if (basis.shape() != x.shape() || basis.dtype() != x.dtype()) {
    shape_error("eigenbasis",
                fmt::format("the basis is {} {}", name_of(basis.dtype()), basis.shape().to_string()),
                fmt::format("{} {}, as the matrix", name_of(x.dtype()), x.shape().to_string()));
  }
  if (x.dtype() != DType::kFloat32 && x.dtype() != DType::kFloat64) {
    shape_error("eigenbasis", fmt::format("the matrix is {}", name_of(x.dtype())), "float32 or float64");
  }
  if (due.shape().rank() != 0 || due.dtype() != x.dtype()) {
    shape_error("eigenbasis", fmt::format("`due` is {} {}", name_of(due.dtype()), due.shape().to_string()),
                fmt::format("{} []", name_of(x.dtype())));
  }
  return x.graph().add<Eigenbasis>(x, basis, due, row.name, column.name).output();
}

}  // namespace mtf
