#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/fusion/fusion.h"

namespace mtf::cuda {

/// Fusion kernels compiled by NVRTC for the calling thread's device, whose architecture is "sm_90" or the
/// like. Messages are added to `notes`, which must outlive the object. Throws Error (kSystem) if there is no
/// NVRTC for it.
std::unique_ptr<FusionKernels> make_compiled_fusions(const std::string& architecture,
                                                     std::vector<BackendNote>& notes);

}  // namespace mtf::cuda
