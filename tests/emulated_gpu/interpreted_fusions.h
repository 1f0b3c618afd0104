#pragma once

#include <memory>

#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda::emulator {

/// Interprets fusions of elementwise operations step by step, one element after the other.
std::unique_ptr<FusionKernels> make_interpreted_fusions();

}  // namespace mtf::cuda::emulator
