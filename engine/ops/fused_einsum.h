// A contraction fused with the bias and the gelu that follow it: y = gelu(a b + bias). A pass over programs
// (engine/spmd/passes/fuse_epilogues.cc) creates it for devices with such kernels; graphs contain the
// separate operations. relu is not fused: the libraries have one, but it turns NaN into 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/einsum.h"

namespace mtf {

/// Inputs: those of the contraction and, optionally, the bias, which has some of the output's dimensions in
/// any order. The sums are rounded once, at the end.
class FusedEinsum final : public OperationBase<FusedEinsum> {
 public:
  /// `bias` may be null.
  FusedEinsum(const Einsum& einsum, const Tensor& bias, bool gelu);
  std::string_view name() const override { return "fused_einsum"; }
  /// Returns for example "tf32, bias, gelu".
  std::string attributes() const override;
  /// Returns the cost of the contraction.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  bool gelu;
  bool tf32;
};

}  // namespace mtf
