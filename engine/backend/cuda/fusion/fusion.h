// Fusion describes a fusion of elementwise operations (engine/ops/fused_elementwise.h) for the generation of
// its kernel.
#pragma once

#include <vector>

#include "engine/ops/fused_elementwise.h"

namespace mtf::cuda {

/// Everything except sizes, parameters and memory. Values are numbered like those of the operation.
struct Fusion {
  struct Step {
    using Kind = ElementwiseStep::Kind;
    Kind kind = Kind::kCopy;
    int function = 0;
    DType result = DType::kFloat32;
    std::vector<int> operands;
    int parameter = -1;  ///< index into FusionArguments::parameters; -1: none
    int dropout = -1;    ///< index of the FusionDropout; -1: none
  };

  /// `walks`: by input, true if it is not read in the same order as the outputs are written.
  Fusion(const FusedElementwise& operation, std::vector<bool> walks);

  /// The type of a value.
  DType dtype(int value) const;
  /// The number of elements that a thread loads and stores at once.
  int elements() const;
  int dropouts() const;

  std::vector<DType> inputs;
  std::vector<bool> walks;
  std::vector<Step> steps;
  std::vector<int> results;  ///< values that are outputs
};

/// The values of FusionArguments::parameters for an operation.
std::vector<double> fusion_parameters(const FusedElementwise& operation);

}  // namespace mtf::cuda
