#pragma once

#include <cuda_runtime_api.h>

namespace mtf::cuda {

/// Looks for code of this build's kernels that the calling thread's device runs.
cudaError_t find_kernel_image();

}  // namespace mtf::cuda
