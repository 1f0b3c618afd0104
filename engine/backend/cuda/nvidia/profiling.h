// Times of a GPU's work, and NVIDIA's profilers: spans are NVTX ranges of the domain "mtf", and what is
// profiled lies between cudaProfilerStart() and cudaProfilerStop() (nsys profile -c cudaProfilerApi).
#pragma once

#include <memory>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// Of the compute stream; `device` outlives it.
std::unique_ptr<DeviceClock> make_runtime_clock(Device& device);
ProfileObserver& nvtx_observer();

}  // namespace mtf::cuda
