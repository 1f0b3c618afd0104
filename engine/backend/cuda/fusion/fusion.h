// A fusion of elementwise operations (engine/ops/fused_elementwise.h) as its kernel is made from it.
#pragma once

#include <vector>

#include "engine/ops/fused_elementwise.h"

namespace mtf::cuda {

/// Everything but sizes, parameters and memory. Values are numbered as those of the operation are.
struct Fusion {
  struct Step {
    using Kind = ElementwiseStep::Kind;
    Kind kind = Kind::kCopy;
    int function = 0;
    DType result = DType::kFloat32;
    std::vector<int> operands;
    int parameter = -1;  ///< of FusionArguments::parameters; -1: none
    int dropout = -1;    ///< which FusionDropout; -1: none
  };

  /// `walks`: by input, whether it is read otherwise than the outputs are written.
  Fusion(const FusedElementwise& operation, std::vector<bool> walks);

  /// Of a value.
  DType dtype(int value) const;
  /// That a thread loads and stores at once.
  int elements() const;
  int dropouts() const;

  std::vector<DType> inputs;
  std::vector<bool> walks;
  std::vector<Step> steps;
  std::vector<int> results;  ///< values that are outputs
};

/// FusionArguments::parameters of an operation.
std::vector<double> fusion_parameters(const FusedElementwise& operation);

}  // namespace mtf::cuda
