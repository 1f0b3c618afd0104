// Chains and trees of element-wise operations, done in one pass over memory. For devices that make kernels
// for them: FusedElementwise.
#pragma once

#include "engine/spmd/program.h"

namespace mtf {

///   %2 = dropout(%x, rate=0.1), %3 = add(%2, %y)   into  %3 = fused_elementwise(%x, %y, #2 = dropout(#0, ..
/// What others read, too, is a further result; what nobody else reads needs no memory. Constants that
/// element-wise operations alone read become part of them. Nothing moves across a collective, and nothing
/// waits for its last reader where that takes more memory than before.
Program fuse_chains(Program program);

}  // namespace mtf
