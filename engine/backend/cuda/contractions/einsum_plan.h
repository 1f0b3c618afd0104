// Plans how a contraction becomes matrix products: a pure function of shapes and memory orders.
//
// Dimensions of one class (batch, rows, columns, summed) that are adjacent in all operands that have them
// form one axis. One axis of rows, columns and summed dimensions each forms the matrices, and another axis
// the batch of a call; the remaining axes are loops over calls. An operand whose order suits no product, or
// would need too many calls or unaligned ones, is copied to scratch in a suitable order, and an output
// computed there is copied out. A cost estimate chooses the fastest plan.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "engine/backend/cuda/device/matmul.h"
#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"

namespace mtf::cuda {

/// The operands of a contraction.
enum ContractionOperand : size_t { kA = 0, kB = 1, kOut = 2, kBias = 3 };

/// Axes with their strides in each operand; 0 for an operand without the axis.
using ContractionAxes = StridedAxes<4>;

/// output = epilogue(a b + addend + bias), by class of dimensions (see classify).
struct Contraction {
  ContractionAxes batch, rows, columns, summed;
  DType input = DType::kFloat32;
  DType output = DType::kFloat32;
  MatmulPrecision precision = MatmulPrecision::kFull;
  bool bias = false;
  bool addend = false;  ///< stored as the output is
  Epilogue epilogue = Epilogue::kNone;
  bool output_in_scratch = false;  ///< the output may be written only by a copy
  /// The numbers of bytes, powers of two, at multiples of which a, b and the output begin.
  std::array<int64_t, 3> alignment = {64, 64, 64};

  /// True if the sums get a bias or an activation before they are rounded.
  bool finishes() const { return bias || epilogue != Epilogue::kNone; }
};

/// What a plan may ask of the library.
enum class LibraryUse {
  kFinishes,  ///< products, and bias and epilogue where the library computes them accurately
  kPlain,     ///< products alone: a kernel of the backend does the rest
  kAligned,   ///< plain products of packed matrices whose rows begin at multiples of 16 bytes
};

/// The contraction of an operation with inputs a, b, possibly a bias and possibly an addend. Axes of one entry
/// are left out.
Contraction contraction_of(const KernelContext& context, bool bias = false, bool addend = false);

/// An operand that is stored in scratch, with rows that begin at multiples of 16 bytes unless they are short.
struct PackedOperand {
  StridedAxes<3> axes;   ///< strides in the tensor, in scratch and in the bias
  int64_t elements = 1;  ///< in scratch, with what is between rows
  DType dtype = DType::kFloat32;

  int64_t bytes() const { return elements * static_cast<int64_t>(size_of(dtype)); }
};

struct EinsumPlan {
  MatmulProblem problem;  ///< product of one call; `accumulate` is not used
  bool swapped = false;   ///< b is the left matrix and a the right one: the product is transposed
  ContractionAxes loops;  ///< over calls: offsets in a, b and the output, or in their packed forms
  /// Loops over calls for the same matrix of the output; all but the first call add to it.
  ContractionAxes sums;
  std::array<std::optional<PackedOperand>, 3> packed;  ///< the copy of a packed output also finishes it
  int64_t flops = 0;                                   ///< two for each multiply-add
};

/// No axis may be empty.
EinsumPlan plan_einsum(const Contraction& contraction, LibraryUse use = LibraryUse::kFinishes);

}  // namespace mtf::cuda
