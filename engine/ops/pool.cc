#include "engine/ops/pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/fused.h"
#include "engine/ops/unary.h"
#include "engine/ops/window_blocks.h"

namespace mtf {
namespace {

/// Checks the windows of x, of which `size` are in its dimensions.
template <class Size>
void check(std::string_view operation, const Tensor& x, const std::vector<Window>& windows, Size size) {
  if (!is_floating(x.dtype())) shape_error(operation, fmt::format("not defined for {}", name_of(x.dtype())));
  if (windows.size() > kMostWindows)
    shape_error(operation, fmt::format("windows along {} dimensions", windows.size()),
                fmt::format("at most {}", kMostWindows));
  for (const Window& window : windows) {
    if (x.shape().dimension(window.dimension).size != size(window))
      shape_error(operation,
                  fmt::format("{} has {} entries of `{}`, the windows {}", x.shape().to_string(),
                              x.shape().dimension(window.dimension).size, window.dimension, size(window)));
  }
}

/// The number of entries that window `w` of all reads.
int64_t reads(const Window& window, int64_t w) {
  int64_t count = 0;
  for (int64_t k = 0; k < window.size; ++k) {
    const int64_t entry = w * window.stride - window.before + k * window.dilation;
    count += entry >= 0 && entry < window.entries.size;
  }
  return count;
}

/// Returns whether some window reads padding; throws Error if one reads nothing else.
bool has_padding(std::string_view operation, const std::vector<Window>& windows) {
  bool padding = false;
  for (const Window& window : windows) {
    for (int64_t w = 0; w < window.windows.size; ++w) {
      const int64_t count = reads(window, w);
      if (count == 0)
        shape_error(operation, fmt::format("window {} along `{}` reads only padding", w, window.dimension),
                    "less padding");
      padding |= count < window.size;
    }
  }
  return padding;
}

/// The shape of the entries, given that of the windows, or with `of_windows` the other way round. Neither has margins.
Shape other_grid(Shape shape, const std::vector<Window>& windows, bool of_windows) {
  for (const Window& window : windows) {
    const WindowGrid& grid = of_windows ? window.windows : window.entries;
    shape = shape.resized(window.dimension, window.blocks.empty() ? grid.size : grid.per_block);
  }
  return shape;
}

}  // namespace

Tensor window_sum(const Tensor& x, const std::vector<Window>& windows, double scale) {
  check("window_sum", x, windows, entry_count);
  return x.graph().add<WindowSum>(x, windows, scale, false).output();
}

Tensor window_mean(const Tensor& x, const std::vector<Window>& windows) {
  check("window_mean", x, windows, entry_count);
  if (!has_padding("window_mean", windows)) {
    double count = 1;
    for (const Window& window : windows) count *= static_cast<double>(window.size);
    return window_sum(x, windows, 1 / count);
  }
  std::vector<Dimension> dimensions;
  for (const Window& window : windows) dimensions.push_back(x.shape().dimension(window.dimension));
  const Tensor ones = x.graph().constant(1, accumulation_dtype(x.dtype()), Shape(std::move(dimensions)));
  const Tensor share = cast(reciprocal(window_sum(ones, windows)), x.dtype());
  const Tensor sum = window_sum(x, windows);
  return multiply(sum, share, sum.shape());
}

Tensor window_max(const Tensor& x, const std::vector<Window>& windows) {
  check("window_max", x, windows, entry_count);
  has_padding("window_max", windows);
  return x.graph().add<WindowMax>(x, windows).output(0);
}

Tensor spread(const Tensor& y, const std::vector<Window>& windows, double scale) {
  check("spread", y, windows, window_count);
  return y.graph().add<WindowSum>(y, windows, scale, true).output();
}

WindowSum::WindowSum(const Tensor& x, std::vector<Window> windows, double scale, bool spreads)
    : OperationBase({x}, {{other_grid(x.shape(), windows, !spreads), x.dtype()}}),
      windows(std::move(windows)),
      scale(scale),
      spreads(spreads) {}

std::string WindowSum::attributes() const {
  return scale == 1 ? to_string(windows) : fmt::format("{}, scale={}", to_string(windows), scale);
}

Tensors WindowSum::gradient(const Tensors& dy) const {
  return {graph().add<WindowSum>(dy[0], windows, scale, !spreads).output()};
}

ShardingRule WindowSum::sharding_rule(const ShardingRequest& request) const {
  return shard_linear(*this, request, {0});
}

bool WindowSum::needs_expansion(const ShardingRequest& request) const {
  return splits_windows(windows, request.rules);
}

Tensors WindowSum::expand(const Tensors& inputs, const LayoutMap& rules) const {
  const auto extended = spreads ? WindowBlocks::kWindows : WindowBlocks::kEntries;
  const WindowBlocks blocks(windows, extended, {inputs[0].shape()}, rules);
  return {blocks.joined(
      graph().add<WindowSum>(blocks.extended(inputs[0]), blocks.windows(), scale, spreads).output())};
}

WindowMax::WindowMax(const Tensor& x, std::vector<Window> windows)
    : OperationBase({x}, {{other_grid(x.shape(), windows, true), x.dtype()},
                          {other_grid(x.shape(), windows, true), DType::kInt32}}),
      windows(std::move(windows)) {}

std::string WindowMax::attributes() const { return to_string(windows); }

Tensors WindowMax::gradient(const Tensors& dy) const {
  return {graph().add<WindowMaxGradient>(dy[0], output(1), windows, input(0).shape()).output()};
}

bool WindowMax::needs_expansion(const ShardingRequest& request) const {
  return splits_windows(windows, request.rules);
}

Tensors WindowMax::expand(const Tensors& inputs, const LayoutMap& rules) const {
  const WindowBlocks blocks(windows, WindowBlocks::kEntries, {inputs[0].shape()}, rules);
  const auto& maximum = graph().add<WindowMax>(blocks.extended(inputs[0]), blocks.windows());
  return {blocks.joined(maximum.output(0)), blocks.joined(maximum.output(1))};
}

WindowMaxGradient::WindowMaxGradient(const Tensor& dy, const Tensor& place, std::vector<Window> windows,
                                     const Shape& entries)
    : OperationBase({dy, place}, {{entries, dy.dtype()}}), windows(std::move(windows)) {}

std::string WindowMaxGradient::attributes() const { return to_string(windows); }

Tensors WindowMaxGradient::gradient(const Tensors&) const { not_differentiable(*this); }

bool WindowMaxGradient::needs_expansion(const ShardingRequest& request) const {
  return splits_windows(windows, request.rules);
}

Tensors WindowMaxGradient::expand(const Tensors& inputs, const LayoutMap& rules) const {
  const WindowBlocks blocks(windows, WindowBlocks::kWindows, {inputs[0].shape()}, rules);
  return {blocks.joined(graph()
                            .add<WindowMaxGradient>(blocks.extended(inputs[0]), blocks.extended(inputs[1]),
                                                    blocks.windows(), blocks.cut(outputs()[0].shape))
                            .output())};
}

}  // namespace mtf
