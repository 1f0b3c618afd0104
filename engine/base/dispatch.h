// Hot loops compiled for each instruction set. A loop is an MTF_INLINE function; `dispatched<loop>` is a
// function with the same parameters that runs the version for instruction_set():
//
//   template <class T>
//   MTF_INLINE void scale(const T* x, T* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; }
//
//   dispatched<scale<float>>(x, y, n);
//
// Functions that the loop calls must be inlined into it (MTF_INLINE): a function that is called, and a loop
// that is called without `dispatched`, is compiled for plain x86-64 only.
#pragma once

#include "engine/base/instruction_set.h"

#define MTF_INLINE [[gnu::always_inline]] static inline

#if defined(__GNUC__) && !defined(__clang__)
#define MTF_SEPARATE [[gnu::noipa]]
#else
#define MTF_SEPARATE [[gnu::noinline]]
#endif

/// Keeps the rounding of a variable, a vector or a number in a register: the compiler may change the order of additions and
/// multiplications that it sees.
#if defined(__x86_64__)
#define MTF_KEEP_ROUNDED(variable) asm("" : "+x"(variable))
#else
#define MTF_KEEP_ROUNDED(variable) asm("" : "+m"(variable))
#endif

namespace mtf {

/// The versions of a loop. The compiler knows nothing about the callers of each, so its bits depend on the
/// arguments alone.
template <auto loop>
struct Versions;

template <class Result, class... Arguments, Result (*loop)(Arguments...)>
struct Versions<loop> {
  static Result run(Arguments... arguments) {
#if MTF_HAS_INSTRUCTION_SETS
    switch (instruction_set()) {
      case InstructionSet::kAmx:
      case InstructionSet::kAvx512:
        return avx512(arguments...);
      case InstructionSet::kAvx2:
        return avx2(arguments...);
      case InstructionSet::kPortable:
        break;
    }
#endif
    return portable(arguments...);
  }

 private:
#if MTF_HAS_INSTRUCTION_SETS
  [[gnu::target("arch=x86-64-v4")]] MTF_SEPARATE static Result avx512(Arguments... arguments) {
    return loop(arguments...);
  }
  [[gnu::target("arch=x86-64-v3")]] MTF_SEPARATE static Result avx2(Arguments... arguments) {
    return loop(arguments...);
  }
#endif
  MTF_SEPARATE static Result portable(Arguments... arguments) { return loop(arguments...); }
};

template <auto loop>
inline constexpr auto dispatched = &Versions<loop>::run;

#undef MTF_SEPARATE

}  // namespace mtf
