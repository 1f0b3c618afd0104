// What the emulated matmul library can do. Tests lower it, so that the ways without the library are taken.
#pragma once

#include <cstdint>

namespace mtf::cuda::emulator {

struct MatmulLimits {
  bool epilogues = true;  ///< bias and activation
  int64_t alignment = 1;  ///< the least alignment of columns for which there are algorithms
  bool products = true;   ///< there are algorithms at all
};

/// The limits of all devices. At first those of MTF_EMULATED_MATMULS: `plain` (no epilogues), `aligned` (neither epilogues
/// nor columns that are aligned to less than 16 bytes) or `none` (no products).
MatmulLimits& matmul_limits();

}  // namespace mtf::cuda::emulator
