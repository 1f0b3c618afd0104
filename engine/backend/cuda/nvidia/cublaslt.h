#pragma once

#include <memory>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// cuBLASLt for the calling thread's device. Throws Error (kSystem) if it is missing.
std::unique_ptr<MatmulLibrary> open_cublaslt(Device& device);

}  // namespace mtf::cuda
