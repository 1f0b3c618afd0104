// Running sums over the threads of a warp or a block, in a fixed order.
#pragma once

#include "engine/backend/cuda/device/block.h"

namespace mtf::cuda {

/// The sum over this lane and the lanes before it.
template <class T>
MTF_DEVICE T scan_warp(const Block& block, T value) {
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = block.shuffle(value, (block.lane() - distance) & (kWarp - 1));
    if (block.lane() >= distance) value = before + value;
  }
  return value;
}

/// Sums over the threads of a group: over those before this one, and over all.
template <class T>
struct Scanned {
  T before, total;
};

/// Sums over the lanes of a warp.
template <class T>
MTF_DEVICE Scanned<T> scan_lanes(const Block& block, T value) {
  const T sum = scan_warp(block, value);
  const T before = block.shuffle(sum, (block.lane() - 1) & (kWarp - 1));
  return {block.lane() == 0 ? T{} : before, block.shuffle(sum, kWarp - 1)};
}

/// Sums over the threads of a block. `shared` has one T for each warp and may be used again after the call.
template <class T>
MTF_DEVICE Scanned<T> scan_block(const Block& block, T value, T* shared) {
  const Scanned<T> lanes = scan_lanes(block, value);
  if (block.lane() == 0) shared[block.warp()] = lanes.total;
  block.sync();
  T before{}, total{};
  for (int warp = 0; warp < block.warps(); ++warp) {
    if (warp == block.warp()) before = total;
    total = total + shared[warp];
  }
  block.sync();
  return {before + lanes.before, total};
}

}  // namespace mtf::cuda
