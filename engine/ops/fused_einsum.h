// A contraction fused with what follows it: y = activation(a b + addend + bias). A pass over programs
// (engine/spmd/passes/fuse_epilogues.cc) creates it for devices with such kernels; graphs contain the
// separate operations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/einsum.h"
#include "engine/ops/unary.h"

namespace mtf {

/// What a FusedEinsum does to the sums of products before it rounds them. Tensors may be null. A device may round the
/// sums before it adds the addend, too, as the separate operations do.
struct EinsumEpilogue {
  Tensor bias = {};                              ///< has some of the output's dimensions in any order
  Tensor addend = {};                            ///< has shape and dtype of the output
  std::optional<UnaryFunction> activation = {};  ///< gelu, or relu, which turns NaN into 0
};

/// Inputs: those of the contraction and, if there are any, the bias and the addend.
class FusedEinsum final : public OperationBase<FusedEinsum> {
 public:
  FusedEinsum(const Einsum& einsum, const EinsumEpilogue& epilogue);
  std::string_view name() const override { return "fused_einsum"; }
  /// Returns for example "tf32, bias, gelu" or "addend".
  std::string attributes() const override;
  /// The result may overwrite the addend.
  std::optional<int> in_place(int output) const override;
  /// Returns the cost of the contraction.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  bool has_bias, has_addend;
  std::optional<UnaryFunction> activation;
  MatmulPrecision precision;
};

}  // namespace mtf
