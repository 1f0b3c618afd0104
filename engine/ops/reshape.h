// Reshapes and renames: the result has the same elements in the same row-major order with other dimensions.
// Locally it is a view; on a mesh it may communicate if the new dimensions are split differently from the old
// ones.
#pragma once

#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace mtf {

/// Returns `x` with the dimensions of `shape`; throws Error if the sizes differ. The gradient is the inverse
/// reshape.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Returns `x` with dimension `from` renamed to `to`.
Tensor rename(const Tensor& x, const std::string& from, const std::string& to);
/// Replaces consecutive dimensions of `x`, from the first to the last of `from`, by `to`, which has the same
/// product.
Tensor replace_dimensions(const Tensor& x, const Shape& from, const Shape& to);

class Reshape final : public OperationBase<Reshape> {
 public:
  Reshape(const Tensor& x, const Shape& shape);
  std::string_view name() const override { return "reshape"; }
  Tensors gradient(const Tensors& dy) const override;
  /// Compares which mesh coordinate owns each element (see the formula in reshape.cc). A mesh dimension that
  /// splits at the same row-major boundary before and after stays. One whose boundary changes is moved before
  /// the reshape if the old shape has the new boundary, or after it if the new shape has the old one;
  /// otherwise its parts are gathered.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  bool is_view() const override { return true; }
};

}  // namespace mtf
