#pragma once

#include <cuda_runtime_api.h>

namespace mtf::cuda {

/// Checks that this build has code of its kernels for the calling thread's device.
cudaError_t find_kernel_image();

}  // namespace mtf::cuda
