// Runs the blocks of a kernel one after the other on the calling thread of the host. Each thread of a block
// is a fiber that runs from barrier to barrier.
//
// Work without a defined order (blocks, the warps of a block between two barriers, the lanes of a warp
// between two exchanges) runs in an order that differs from launch to launch, so a kernel that lacks a
// barrier gives different results.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/backend/cuda/device/kernel_launch.h"

namespace mtf::cuda::emulator {

using Body = std::function<void(const Block&)>;

inline constexpr int kMostThreads = 1024;
/// The shared memory of a block on an A100, the GPU of the backend with the least.
inline constexpr int64_t kMostSharedBytes = 163 << 10;

/// The name of the function object's type in the source.
std::string kernel_name(const Body& body);
/// Aborts if an A100 would not start the kernel.
void check_shape(const LaunchShape& shape, int max_threads, const Body& body);
/// `order` is the number of the launch, from which the order of execution is derived.
void run_grid(const LaunchShape& shape, const Body& body, uint64_t order);

}  // namespace mtf::cuda::emulator
