// Launches kernels through a single __global__ function, which checks the guard and calls the function
// object.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// The default size of a block, in threads and in warps.
inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / kWarp;

struct LaunchShape {
  int64_t blocks = 1;      ///< 0: nothing is launched
  int threads = kThreads;  ///< a multiple of kWarp
  int64_t shared_bytes = 0;
};

/// The largest number of threads of a block of this kernel, from which the compiler derives the number of
/// registers: `static constexpr int kMaxThreads` of the function object, or kThreads.
template <class Body>
constexpr int max_threads() {
  if constexpr (requires { Body::kMaxThreads; }) {
    return Body::kMaxThreads;
  } else {
    return kThreads;
  }
}

/// The largest number of blocks of a launch.
inline constexpr int64_t kMostGridBlocks = (int64_t{1} << 31) - 1;

/// Checks the result of a CUDA call that launches; throws Error (kSystem).
void check_launch(int code);
/// The number of blocks as CUDA takes it; aborts if there are more than kMostGridBlocks.
unsigned grid_blocks(int64_t blocks);

#if defined(__CUDACC__)

template <class Body>
__global__ void __launch_bounds__(max_threads<Body>())
    run_body(const __grid_constant__ Body body, const bool* guard) {
  if (guard != nullptr && !*guard) return;
  body(Block());
}

template <class Body>
void launch(Stream stream, const LaunchShape& shape, const bool* guard, const Body& body) {
  if (shape.blocks == 0) return;
  if (shape.shared_bytes > 48 << 10) {
    check_launch(cudaFuncSetAttribute(run_body<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shape.shared_bytes)));
  }
  run_body<Body>
      <<<grid_blocks(shape.blocks), static_cast<unsigned>(shape.threads),
         static_cast<size_t>(shape.shared_bytes), static_cast<cudaStream_t>(stream.handle)>>>(body, guard);
  check_launch(cudaGetLastError());
}

#else

namespace emulator {
/// Runs body(block) for every thread, or records it. Aborts if a rule of block.h is broken.
void launch(Stream stream, const LaunchShape& shape, int max_threads, const bool* guard,
            std::function<void(const Block&)> body);
}  // namespace emulator

template <class Body>
void launch(Stream stream, const LaunchShape& shape, const bool* guard, const Body& body) {
  emulator::launch(stream, shape, max_threads<Body>(), guard, body);
}

#endif

/// Elements that a thread of an elementwise kernel handles, and the largest number of blocks of a
/// grid-strided loop.
inline constexpr int64_t kElementsPerThread = 4;
inline constexpr int64_t kMostBlocks = 1 << 14;

/// A grid for a loop from block.first() by block.stride() over `count` units.
inline LaunchShape over(int64_t count, int64_t units_per_thread = kElementsPerThread,
                        int threads = kThreads) {
  const int64_t per_block = threads * units_per_thread;
  return {std::min(kMostBlocks, (count + per_block - 1) / per_block), threads, 0};
}

}  // namespace mtf::cuda
