#pragma once

#include <memory>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda {

/// Fusion kernels compiled by NVRTC for `device`, the calling thread's, which gets messages about them. Throws
/// Error (kSystem) if there is no NVRTC for it.
std::unique_ptr<FusionKernels> make_compiled_fusions(Device& device);

}  // namespace mtf::cuda
