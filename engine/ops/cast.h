// Conversion between element types.
#pragma once

#include "engine/graph/operation.h"

namespace mtf {

class Cast final : public OperationBase<Cast> {
 public:
  Cast(const Tensor& x, DType dtype) : OperationBase({x}, {{x.shape(), dtype}}) {}
  std::string_view name() const override { return "cast"; }
  std::optional<ElementwiseStep> elementwise_step() const override {
    return ElementwiseStep{ElementwiseStep::Kind::kCast};
  }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
};

/// x with elements of `dtype`; x itself if it has them. To integers: towards zero; to bool: x != 0; to
/// bfloat16: to nearest even. A gradient passes between floating-point types only.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace mtf
