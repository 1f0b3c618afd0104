// Converts between element types.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

/// Returns x with elements of `dtype`; x itself if it has this dtype. Conversions round to integers towards
/// zero and to bfloat16 to nearest even; to bool they compute x != 0. Gradients pass only between
/// floating-point types.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace mtf
