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

/// For calls that may fail, such as those of destructors after the GPU has failed. CUDA keeps the last error
/// until it is asked for it: the next launch would report it as its own.
inline void ignore(cudaError_t code) {
  if (code != cudaSuccess) cudaGetLastError();
}

/// Throws Error: kNoDevice if there is no driver, kSystem if it is older than CUDA's version of this build.
void check_driver();

}  // namespace mtf::cuda
