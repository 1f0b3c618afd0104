// What the formulas of elementwise functions are written with. They are text for every compiler: the CPU's kernels,
// CUDA's, the kernels that are generated at run time, and the tests' emulator have the same formulas, each over the
// functions (exp, log, ...) of its own `Math`.
#pragma once

#include "engine/core/dtype.h"

#if defined(__CUDACC__)
#define MTF_FORMULA static __device__ __forceinline__
#else
#define MTF_FORMULA [[gnu::always_inline]] static inline
#endif

namespace mtf::formulas {

/// Which types of operands a function is defined for.
inline constexpr unsigned kFloats = 1, kIntegers = 2, kBools = 4, kNumbers = kFloats | kIntegers;

/// The one of these that a dtype is.
inline unsigned kind_of(DType dtype) {
  return is_floating(dtype) ? kFloats : dtype == DType::kBool ? kBools : kIntegers;
}

/// The input or the output of a function of one tensor.
enum class Operand { kInput, kOutput };

}  // namespace mtf::formulas
