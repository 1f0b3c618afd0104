// Repeats a tensor along new dimensions.
#pragma once

#include <optional>
#include <string_view>

#include "engine/graph/operation.h"
#include "engine/ops/transpose.h"

namespace mtf {

class Broadcast final : public OperationBase<Broadcast> {
 public:
  Broadcast(const Tensor& x, const Shape& shape);
  std::string_view name() const override { return "broadcast"; }
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kCopy};
  }
  Tensors gradient(const Tensors& dy) const override;
};

/// Returns x in `shape`, which has all of x's dimensions in any order, and other dimensions along which x is
/// repeated. The gradient is summed over these. Returns x itself if it has this shape. Throws Error if a
/// dimension of x is missing.
Tensor broadcast(const Tensor& x, const Shape& shape);

}  // namespace mtf
