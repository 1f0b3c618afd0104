// Eigenvectors of symmetric positive semidefinite matrices that change slowly, such as running means of G G^T. They are
// brought up to date when a scalar says so; in other steps the operation only passes them on, at no cost.
//
//   const Tensor basis = eigenbasis(factor, context.read(slot), due, "rows", "eigenvectors");
//   const Tensor rotated = einsum({x, basis});   // x: [rows, columns] -> [columns, eigenvectors]
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/ops/dimension_name.h"

namespace mtf {

/// Returns a new basis for x: [..., row, column], two dimensions of one size; each matrix of the other dimensions for
/// itself. Column k of a basis, along `row`, is its k-th vector. `basis` has the shape of `x`.
///   basis is zero   the eigenvectors of x, from the largest eigenvalue down; zero where x is zero
///   due > 0         one step of orthogonal iteration: the factor Q of the QR decomposition of
///                   (x + shift I) basis, with R's diagonal positive
///   otherwise       the basis as it is, and so if x is not finite
///
/// Directions in which x has no more than rounding errors have no eigenvectors of their own. With
/// kSpectrumNoise = 1e-4, directions whose eigenvalue is at most kSpectrumNoise times the largest get vectors near the
/// coordinate axes, and shift = kSpectrumNoise |x| (Frobenius) keeps such vectors where they are.
/// An eigenvector's entry of largest magnitude is positive. Only the lower triangle of x is read (column <= row). `due`
/// is a scalar of x's dtype, which is float32 or float64. Both dimensions are whole on a position; the partitioner
/// gathers them. There is no gradient.
Tensor eigenbasis(const Tensor& x, const Tensor& basis, const Tensor& due, DimensionName row,
                  DimensionName column);

inline constexpr double kSpectrumNoise = 1e-4;

/// Inputs: x, basis, due.
class Eigenbasis final : public OperationBase<Eigenbasis> {
 public:
  Eigenbasis(const Tensor& x, const Tensor& basis, const Tensor& due, std::string_view row,
             std::string_view column);
  std::string_view name() const override { return "eigenbasis"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::optional<int> in_place(int) const override { return 1; }

  std::string row;
  std::string column;
};

}  // namespace mtf
