// The dimensions of a convolution by what they are to a matrix product C = A * B.
//
//   computed        A         rows of C                 summed                    B        columns
//   windows         entries   images x windows          filter x inputs           filter   outputs
//   entries         windows   images x entries          filter x outputs          filter   inputs
//   filter          entries   filter x inputs           images x windows          windows  outputs
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/backend/placed_window.h"
#include "engine/backend/strided.h"
#include "engine/core/shape.h"
#include "engine/ops/convolution.h"

namespace mtf {

/// The operands of the product, and their places in strides.
enum ConvolutionPlace : size_t { kA = 0, kB = 1, kC = 2 };

/// The tensors of a convolution by role and by place: each is an input or the output.
struct ConvolutionOperands {
  explicit ConvolutionOperands(const KernelContext& context);

  Convolution::Role role_of(size_t place) const;
  /// The dimension as an axis of A, B and C; strides are 0 where it is missing.
  StridedAxis<3> axis(const std::string& name) const;
  /// The dimensions, joined where possible, in the order that they have in the operand at `place`.
  StridedAxes<3> axes(const Shape& dimensions, size_t place) const;

  const Convolution& operation;
  const LocalTensor* by_role[3];
  const LocalTensor* by_place[3];
  ConvolutionClasses classes;
};

/// A dimension with windows: strides of its grid (or filter) in A, B and C, and of its blocks.
struct WindowAxis {
  PlacedWindow placed;
  Offsets<3> strides{}, block_strides{};
  bool place_by_place = false;  ///< a task computes one place of the filter along this dimension

  const Window& window() const { return placed.window; }
};

/// Classes of dimensions with their strides in A, B and C.
struct ConvolutionPlan {
  ConvolutionPlan(const ConvolutionOperands& operands, const KernelContext& context);

  bool sums_images() const { return result == Convolution::kFilter; }

  Convolution::Role result = Convolution::kWindows;
  StridedAxes<3> loops = {};     ///< groups, and columns that could not be joined
  StridedAxes<3> images = {};    ///< batch dimensions, which all but the filter have
  StridedAxes<3> channels = {};  ///< the dimensions of A that are neither windows nor images
  StridedAxis<3> columns = {};
  std::vector<WindowAxis> windows = {};
};

}  // namespace mtf
