// Copies the patches of a tensor that windows see into a matrix: im2col (Chellapilla, Puri and Simard 2006).
//
//   patches[group, grid, tap, channel] = source[group, image, index(position, tap).., channel], 0 where there is none
//
// The grid is [image, position of each window dimension], and the taps are the places of each window dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/strided.h"
#include "engine/ops/window.h"

namespace mtf::cuda {

/// Along a dimension, position r and tap t are at index begin + r * position_step + t * tap_step of the source, which has the
/// indices first .. end - 1.
struct PatchWindow {
  int64_t positions = 1, taps = 1;
  int64_t stride = 0;  ///< between neighbours in the source
  int64_t position_step = 0, tap_step = 0;
  int64_t begin = 0, first = 0, end = 1;
};

/// What a copy is prepared for; of PatchWindow, `begin`, `first` and `end` are given by each call.
struct PatchShape {
  StridedAxes<1> groups = {}, images = {}, channels = {};  ///< strides in the source
  std::vector<PatchWindow> windows = {};
  int64_t element = 4;     ///< bytes
  bool grid_last = false;  ///< the matrix of a group is [tap, channel, grid] instead of [grid, tap, channel]
  int64_t alignment = 16;  ///< the source begins at multiples of so many bytes, a power of two

  int64_t grid() const;
  int64_t depth() const;  ///< taps and channels
  /// Elements between the begins of adjacent rows of the matrix: rows begin at multiples of 16 bytes.
  int64_t row() const;
  /// Elements of the matrix of one group.
  int64_t matrix() const { return (grid_last ? depth() : grid()) * row(); }
  int64_t bytes() const { return size_of(groups) * matrix() * element; }
};

using PatchCopy = std::function<void(const Launcher&, const std::byte* source, std::byte* patches,
                                     const std::vector<PatchWindow>& windows)>;
PatchCopy make_patch_copy(const PatchShape& shape);

}  // namespace mtf::cuda
