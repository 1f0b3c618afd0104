// The operands of a convolution by their roles: what its kernels have in common.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/placed_window.h"
#include "engine/backend/strided.h"
#include "engine/ops/convolution.h"

namespace mtf::cuda {

/// A dimension with windows, with its strides by role; 0 where a role has no such dimension.
struct ConvolutionWindow {
  PlacedWindow placed;
  Offsets<3> strides{};    ///< between entries, places of the filter, windows
  Offsets<3> blocks{};     ///< between blocks
  int64_t all_blocks = 1;  ///< in the whole tensors

  const Window& window() const { return placed.window; }
};

struct ConvolutionOperands {
  explicit ConvolutionOperands(const KernelContext& context);

  const LocalTensor& of(Convolution::Role role) const { return by_role[role]; }
  /// The input that has a role other than `result`.
  int input_of(Convolution::Role role) const { return role - (role > result); }

  Convolution::Role result;
  MatmulPrecision precision;
  std::array<LocalTensor, 3> by_role;
  std::vector<ConvolutionWindow> windows;
  /// Classes of dimensions (ConvolutionClasses) with strides by role; `images` are the batch without blocks. Axes of one
  /// entry are left out.
  StridedAxes<3> groups, images, inputs, outputs;
};

}  // namespace mtf::cuda
