#pragma once

#include <memory>

#include "engine/backend/cuda/chains/chain.h"
#include "engine/backend/cuda/device/chain_kernels.h"

namespace mtf::cuda::emulator {

/// Chains of element-wise operations step by step, one element after the other.
std::unique_ptr<ChainKernels> make_interpreted_chains();

}  // namespace mtf::cuda::emulator
