// What follows a contraction, done by the contraction itself: its bias, a gelu, the sum over microbatches.
// For devices whose kernels can: FusedEinsum, and KernelContext::accumulates.
#pragma once

#include "engine/spmd/program.h"

namespace mtf {

/// Fuses where one instruction alone reads the contraction's result, in its layout:
///   %2 = einsum(%x, %w), %3 = add(%2, %b), %4 = gelu(%3)   into  %4 = fused_einsum(%x, %w, %b, bias, gelu)
///   %5 = einsum(%x, %dy), %6 = accumulate(%5)              into  %6 = accumulate(%x, %dy, einsum)
Program fuse_epilogues(Program program);

}  // namespace mtf
