// Convolutions over named dimensions: contractions in which windows move over some of the dimensions.
//
//   y[.., w, .., out] = sum over k, in of x[.., w * stride - before + k * dilation, .., in] * filter[k, .., in, out]
//
//   const Window rows = window_over({"rows", 28}, {.filter = "kernel_rows", .size = 3});
//   const Window cols = window_over({"cols", 28}, {.filter = "kernel_cols", .size = 3});
//   convolution(image, kernel, {rows, cols});    // [batch, rows, cols, channels], [kernel_rows, kernel_cols, channels,
//                                                // filters] -> [batch, rows, cols, filters]
//
// Any number of dimensions may have windows. The other ones have the roles that they have in einsum, by the operands
// that have them: those of x and filter are summed, unless they are `groups`, which the result keeps (a depthwise
// convolution has no others); all others stay.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/window.h"

namespace mtf {

/// Returns the result with the dimensions of x, then those that only the filter has. Throws Error if dtypes differ, a
/// window's dimension or filter dimension is missing or has another size, or a dimension has two sizes.
Tensor convolution(const Tensor& x, const Tensor& filter, const std::vector<Window>& windows,
                   const Shape& groups = {});

/// The transposed convolution, which is the gradient of a convolution with respect to its input: each entry of y is spread
/// over its window. y: [.., w, .., out], filter as for convolution(); the result has the dimensions of y but for those that
/// it shares with the filter, then `in`. The windows are those of window_onto().
Tensor transposed_convolution(const Tensor& y, const Tensor& filter, const std::vector<Window>& windows,
                              const Shape& groups = {});

/// The three tensors of a convolution, any one of which can be computed from the two others: the windows (a convolution),
/// the entries (a transposed convolution, or gradient of the input), or the filter (gradient of the filter). The gradients
/// of each of them are the two others.
class Convolution final : public OperationBase<Convolution> {
 public:
  enum Role { kEntries, kFilter, kWindows };

  /// The inputs have the two roles other than `result`, in the order of Role.
  Convolution(Role result, const Tensor& first, const Tensor& second, std::vector<Window> windows,
              const Shape& output, DType dtype);
  std::string_view name() const override;
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  /// Any dimension may be split but those of the filter's windows. The output is a partial sum over mesh dimensions that
  /// split summed dimensions.
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  std::vector<std::string> unsplittable() const override;
  Shape joint_shape() const override;
  bool needs_expansion(const ShardingRequest& request) const override;
  /// The same in blocks (window_blocks.h).
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;
  Tensor wide_sum() const override;
  /// Counts 2 FLOPs for each product of a window's entry with the filter, padding included.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override;

  /// True where processors compute it by Winograd's minimal filtering (backend/cpu/contractions/winograd.h): in float32 with
  /// windows of 3 x 3 over enough channels, which are the last dimensions. That depends on the declared shapes alone, so
  /// that a layout never chooses another method.
  bool suits_winograd() const;

  /// The shapes of the inputs and the output, by role.
  std::array<Shape, 3> by_role(const std::vector<Shape>& inputs, const Shape& output) const;

  /// The role of input `i`.
  Role role(int i) const { return static_cast<Role>(i + (i >= result)); }

  Role result;
  std::vector<Window> windows;
  MatmulPrecision precision;  ///< kFull where each channel has a filter by itself: that is no matrix product
};

/// The dimensions that have no window, by the operands that have them: `groups` all three, `batch` entries and windows,
/// `inputs` entries and filter, `outputs` filter and windows. The blocks of windows are part of `batch`.
struct ConvolutionClasses {
  Shape groups, batch, inputs, outputs;
};
ConvolutionClasses classify(const std::array<Shape, 3>& shapes, const std::vector<Window>& windows);

}  // namespace mtf
