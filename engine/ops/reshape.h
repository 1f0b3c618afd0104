// Reshape and rename: the same elements in the same row-major order under other dimensions. Locally a view;
// on a mesh it may communicate, where the new names are split otherwise than the old ones.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace mtf {

/// `x` with the dimensions of `shape`; throws Error when the sizes differ. Gradient: the reshape back.
Tensor reshape(const Tensor& x, const Shape& shape);
/// `x` with dimension `from` called `to`.
Tensor rename(const Tensor& x, const std::string& from, const std::string& to);
/// Consecutive dimensions of `x`, from the first to the last of `from`, replaced by `to` (equal product).
Tensor replace_dimensions(const Tensor& x, const Shape& from, const Shape& to);

class Reshape final : public OperationBase<Reshape> {
 public:
  Reshape(const Tensor& x, const Shape& shape);
  std::string_view name() const override { return "reshape"; }
  Tensors gradient(const Tensors& dy) const override;
  /// Ownership by element (the formula stands in reshape.cc): a mesh dimension that splits at the same
  /// row-major boundary before and after stays; one that moves is moved before the reshape if the old shape
  /// has the new boundary, after it if the new shape has the old one; otherwise its parts are gathered.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  bool is_view() const override { return true; }
};

}  // namespace mtf
