// Errors of the CUDA runtime with CUDA's messages and hints.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "engine/base/error.h"

namespace mtf::cuda {

/// `doing` describes the failed action, such as "copying to the GPU".
Error cuda_error(cudaError_t code, std::string_view doing);

inline void check(cudaError_t code, std::string_view doing) {
  if (code != cudaSuccess) throw cuda_error(code, doing);
}

}  // namespace mtf::cuda
