// Timing of a GPU's work, and support for NVIDIA's profilers: spans are NVTX ranges of the domain "mtf", and
// profiled sections lie between cudaProfilerStart() and cudaProfilerStop() (nsys profile -c cudaProfilerApi).
#pragma once

#include <memory>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// A clock of the compute stream; `device` must outlive it.
std::unique_ptr<DeviceClock> make_runtime_clock(Device& device);
ProfileObserver& nvtx_observer();

}  // namespace mtf::cuda
