// How a contraction becomes products of matrices: a pure function of shapes and memory orders.
//
// Dimensions of one class (batch, rows, columns, summed) that are neighbours in all operands that have them
// are one axis. One axis of each class makes the matrices, another the batch of a call; those that are left
// are loops over calls. An operand whose order suits no product, or would take too many calls, is copied to
// scratch in an order that does, and an output made there is copied out: whatever an estimate finds the
// fastest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engine/backend/cuda/device/matmul.h"
#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"

namespace mtf::cuda {

/// Of a contraction.
enum ContractionOperand : size_t { kA = 0, kB = 1, kOut = 2, kBias = 3 };

/// Axes with their strides in each operand; 0 in one without the axis.
using ContractionAxes = StridedAxes<4>;

/// output = epilogue(a b + bias), by class of dimensions (classify).
struct Contraction {
  ContractionAxes batch, rows, columns, summed;
  DType input = DType::kFloat32;
  DType output = DType::kFloat32;
  bool tf32 = false;
  bool bias = false;
  Epilogue epilogue = Epilogue::kNone;
  bool output_in_scratch = false;  ///< only a copy may write the output

  /// Something is done to the sums before they are rounded.
  bool finishes() const { return bias || epilogue != Epilogue::kNone; }
};

/// Of an operation with inputs a, b and, perhaps, a bias. Axes of one entry are left out.
Contraction contraction_of(const KernelContext& context);

/// A tensor in scratch.
struct PackedOperand {
  StridedAxes<3> axes;  ///< strides of the tensor, in scratch, where it is dense, and of the bias
  DType dtype = DType::kFloat32;

  int64_t bytes() const { return size_of(axes) * static_cast<int64_t>(size_of(dtype)); }
};

struct EinsumPlan {
  MatmulProblem problem;  ///< of a call; `accumulate` says nothing
  bool swapped = false;   ///< b is the left matrix, a the right one: the product is made transposed
  ContractionAxes loops;  ///< over calls: offsets in a, b and the output, or in their packed forms
  ContractionAxes sums;   ///< over calls for one matrix of the output, the second and later ones add to it
  std::array<std::optional<PackedOperand>, 3> packed;  ///< a packed output is finished by the copy
  int64_t flops = 0;                                   ///< 2 for each multiply-add
};

/// No axis is empty.
EinsumPlan plan_einsum(const Contraction& contraction);

}  // namespace mtf::cuda
