// Index arithmetic of kernels: division by numbers that are known when a kernel is prepared, iteration over
// strided operands, and packs of elements that are loaded and stored at once.
//
//   const Strided<2> walk(axes);    // on the host; passed by value
//   for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
//     const Offsets<2> at = walk.at(i);
//     y[at[1]] = x[at[0]];
//   }
//
//   launch(over_packs<kPack<T>>(n), ...);
//   for_each_pack<kPack<T>>(block, n, [&](int64_t first, int count) {
//     Pack<T, kPack<T>> pack = load<kPack<T>>(x + first, count);  // x, y: aligned to 16 bytes
//     store(y + first, pack, count);
//   });
#pragma once

#include <cstdint>

#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/cuda/device/packs.h"
#include "engine/backend/cuda/device/walk.h"

namespace mtf::cuda {

/// A grid for a loop over `size` elements in packs of N.
template <int N>
LaunchShape over_packs(int64_t size) {
  return over((size + N - 1) / N, 1);
}

}  // namespace mtf::cuda
