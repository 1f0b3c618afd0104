// Definitions for the formulas of elementwise functions. Every compiler compiles the same text: the CPU's
// kernels, CUDA's, the kernels that are generated at run time, and the tests' emulator instantiate the
// formulas with the functions (exp, log, ...) of their own `Math`.
#pragma once

#include "engine/core/dtype.h"

#if defined(__CUDACC__)
#define MTF_FORMULA static __device__ __forceinline__
#else
#define MTF_FORMULA [[gnu::always_inline]] static inline
#endif

namespace mtf::formulas {

/// Flags for the operand types for which a function is defined.
inline constexpr unsigned kFloats = 1, kIntegers = 2, kBools = 4, kNumbers = kFloats | kIntegers;

/// Returns the flag of a dtype.
inline unsigned kind_of(DType dtype) {
  return is_floating(dtype) ? kFloats : dtype == DType::kBool ? kBools : kIntegers;
}

/// The input or the output of a function of one tensor.
enum class Operand { kInput, kOutput };

}  // namespace mtf::formulas
