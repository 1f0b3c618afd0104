// A contraction together with the bias and the gelu that follow it: y = gelu(a b + bias). Made by a pass over
// programs (engine/spmd/passes/fuse_epilogues.cc) for devices whose kernels do it all at once; graphs have
// the operations one by one. relu stays on its own: libraries have one, but it makes 0 of NaN.
#pragma once

#include "engine/ops/einsum.h"

namespace mtf {

/// Inputs: those of the contraction, and the bias, if there is one: some of the output's dimensions, in any
/// order. The sums are rounded once, at the end.
class FusedEinsum final : public OperationBase<FusedEinsum> {
 public:
  /// `bias` null: none.
  FusedEinsum(const Einsum& einsum, const Tensor& bias, bool gelu);
  std::string_view name() const override { return "fused_einsum"; }
  /// "tf32, bias, gelu".
  std::string attributes() const override;
  /// That of the contraction.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  bool gelu;
  bool tf32;
};

}  // namespace mtf
