// Sums and maxima over windows: pooling, and the spreading of windows over their entries (upsampling).
//
//   const std::vector<Window> halves = {window_over(rows, {.size = 2, .stride = 2}), ...};
//   window_max(x, halves);        // [batch, rows=28, cols=28, channels] -> [batch, rows=14, cols=14, channels]
//   window_mean(x, halves);
//   spread(y, {window_onto(rows, {.size = 2, .stride = 2}), ...});   // each entry twice
//
// The windows may lie along any dimensions; where a layout splits one, neighbours exchange what they need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/window.h"

namespace mtf {

/// scale * the sum of each window's entries. Padding counts as 0.
Tensor window_sum(const Tensor& x, const std::vector<Window>& windows, double scale = 1);
/// The mean of each window's entries, padding left out. Throws Error if a window has no entry.
Tensor window_mean(const Tensor& x, const std::vector<Window>& windows);
/// The maximum of each window's entries, padding left out; NaN if one of them is. The gradient goes to the first of equal
/// maxima. Throws Error if a window has no entry.
Tensor window_max(const Tensor& x, const std::vector<Window>& windows);
/// scale * the sum of the windows that read an entry: the transpose of window_sum. The windows are those of window_onto().
Tensor spread(const Tensor& y, const std::vector<Window>& windows, double scale = 1);

/// window_sum, or with `spreads` its transpose. Partial sums pass through.
class WindowSum final : public OperationBase<WindowSum> {
 public:
  WindowSum(const Tensor& x, std::vector<Window> windows, double scale, bool spreads);
  std::string_view name() const override { return spreads ? "window_spread" : "window_sum"; }
  std::string attributes() const override;
  /// Returns the transpose of dy.
  Tensors gradient(const Tensors& dy) const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  bool needs_expansion(const ShardingRequest& request) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;

  std::vector<Window> windows;
  double scale;
  bool spreads;
};

/// Outputs: the maxima, and int32 which entry of the window each one is, counted row by row over the windows' dimensions.
class WindowMax final : public OperationBase<WindowMax> {
 public:
  WindowMax(const Tensor& x, std::vector<Window> windows);
  std::string_view name() const override { return "window_max"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;

  std::vector<Window> windows;
};

/// Each entry gets the sum of dy of those windows whose maximum it is. Inputs: dy and the second output of WindowMax.
class WindowMaxGradient final : public OperationBase<WindowMaxGradient> {
 public:
  WindowMaxGradient(const Tensor& dy, const Tensor& place, std::vector<Window> windows, const Shape& entries);
  std::string_view name() const override { return "window_max_gradient"; }
  std::string attributes() const override;
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override;
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;

  std::vector<Window> windows;
};

}  // namespace mtf
