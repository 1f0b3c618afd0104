// x * scale + shift, and x * scale + y * weight + shift, with coefficients along some of the dimensions: normalisation by
// statistics and its gradient in one pass.
#pragma once

#include <string_view>

#include "engine/graph/graph.h"

namespace mtf {

/// x * scale + shift. scale, shift: of one shape, some dimensions of x in any order; float32 if x is bfloat16, otherwise
/// x's type.
Tensor affine(const Tensor& x, const Tensor& scale, const Tensor& shift);
/// x * scale + y * weight + shift. y: as x; weight: as scale.
Tensor affine(const Tensor& x, const Tensor& scale, const Tensor& y, const Tensor& weight,
              const Tensor& shift);

/// Inputs: x, scale, shift, and for the second form y, weight.
class Affine final : public OperationBase<Affine> {
 public:
  explicit Affine(Tensors inputs);
  std::string_view name() const override { return "affine"; }
  Tensors gradient(const Tensors& dy) const override;
  Shape joint_shape() const override { return input(0).shape(); }

  bool has_second() const { return inputs().size() == 5; }
};

}  // namespace mtf
