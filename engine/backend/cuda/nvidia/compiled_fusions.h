#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda {

/// Kernels that NVRTC compiles, for the calling thread's device, an "sm_90". Adds what it has to say to
/// `notes`, which outlives it. Throws Error (kSystem) where there is no NVRTC for it.
std::unique_ptr<FusionKernels> make_compiled_fusions(const std::string& architecture,
                                                     std::vector<BackendNote>& notes);

}  // namespace mtf::cuda
