#include "engine/ops/convolution.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.h"
#include "engine/graph/matmul_precision_scope.h"
#include "engine/ops/cast.h"
#include "engine/ops/window_blocks.h"

namespace mtf {
namespace {

constexpr std::string_view kConvolution = "convolution";
using Role = Convolution::Role;

bool is_window(const std::vector<Window>& windows, const std::string& name) {
  return std::ranges::any_of(windows,
                             [&](const Window& w) { return w.dimension == name || w.filter == name; });
}

/// Checks that `x` has `dimension` with `size` entries.
void check_size(std::string_view what, const Tensor& x, const std::string& dimension, int64_t size) {
  const auto axis = x.shape().find(dimension);
  if (!axis)
    shape_error(kConvolution,
                fmt::format("{} {} has no dimension `{}`", what, x.shape().to_string(), dimension));
  if (x.shape()[*axis].size != size)
    shape_error(kConvolution, fmt::format("{} {} has {} entries of `{}`, the windows {}", what,
                                          x.shape().to_string(), x.shape()[*axis].size, dimension, size));
}

/// Checks a tensor of entries or windows and a filter; `size` is what the windows say of the tensor.
template <class Size>
void check(const Tensor& x, const Tensor& filter, const std::vector<Window>& windows, Size size) {
  if (x.dtype() != filter.dtype() || !is_floating(x.dtype())) {
    shape_error(kConvolution,
                fmt::format("of {} with a filter of {}", name_of(x.dtype()), name_of(filter.dtype())),
                "floating-point numbers of one type");
  }
  if (windows.size() > kMostWindows)
    shape_error(kConvolution, fmt::format("windows along {} dimensions", windows.size()),
                fmt::format("at most {}", kMostWindows));
  for (const Window& window : windows) {
    check_size("the input", x, window.dimension, size(window));
    check_size("the filter", filter, window.filter, window.size);
    if (filter.shape().contains(window.dimension) || x.shape().contains(window.filter)) {
      shape_error(kConvolution,
                  fmt::format("input {} and filter {} with windows of `{}` along `{}`", x.shape().to_string(),
                              filter.shape().to_string(), window.filter, window.dimension),
                  "the filter's dimension in the filter alone, the other one in the input alone");
    }
  }
  for (const Dimension& d : x.shape()) {
    const auto other = filter.shape().find(d.name);
    if (other && filter.shape()[*other].size != d.size)
      shape_error(kConvolution, fmt::format("dimension `{}` has sizes {} and {}", d.name, d.size,
                                            filter.shape()[*other].size));
  }
}

/// The dimensions of `x` with those of windows resized and those that it shares with the filter left out (unless they are
/// groups), then the rest of the filter's.
template <class Size>
Shape result_shape(const Shape& x, const Shape& filter, const std::vector<Window>& windows,
                   const Shape& groups, Size size) {
  for (const Dimension& d : groups) {
    if (!x.contains(d) || !filter.contains(d))
      shape_error(kConvolution, fmt::format("group {}={} is not in both {} and {}", d.name, d.size,
                                            x.to_string(), filter.to_string()));
  }
  std::vector<Dimension> dimensions;
  for (const Dimension& d : x) {
    const auto window = std::ranges::find(windows, d.name, &Window::dimension);
    if (window != windows.end()) {
      dimensions.push_back({d.name, size(*window)});
    } else if (!filter.contains(d.name) || groups.contains(d.name)) {
      dimensions.push_back(d);
    }
  }
  for (const Dimension& d : filter) {
    if (!x.contains(d.name) && !is_window(windows, d.name)) dimensions.push_back(d);
  }
  return Shape(std::move(dimensions));
}

}  // namespace

Tensor convolution(const Tensor& x, const Tensor& filter, const std::vector<Window>& windows,
                   const Shape& groups) {
  check(x, filter, windows, entry_count);
  const Shape output = result_shape(x.shape(), filter.shape(), windows, groups, window_count);
  return x.graph().add<Convolution>(Role::kWindows, x, filter, windows, output, x.dtype()).output();
}

Tensor transposed_convolution(const Tensor& y, const Tensor& filter, const std::vector<Window>& windows,
                              const Shape& groups) {
  check(y, filter, windows, window_count);
  const Shape output = result_shape(y.shape(), filter.shape(), windows, groups, entry_count);
  return y.graph().add<Convolution>(Role::kEntries, filter, y, windows, output, y.dtype()).output();
}

Convolution::Convolution(Role result, const Tensor& first, const Tensor& second, std::vector<Window> windows,
                         const Shape& output, DType dtype)
    : OperationBase({first, second}, {{output, dtype}}),
      result(result),
      windows(std::move(windows)),
      precision(MatmulPrecision::kFull) {
  std::array<Shape, 3> shapes;
  shapes[role(0)] = first.shape();
  shapes[role(1)] = second.shape();
  shapes[result] = output;
  const ConvolutionClasses classes = classify(shapes, this->windows);
  if (classes.inputs.rank() + classes.outputs.rank() > 0)
    precision = precision_for(first.dtype(), first.graph().matmul_precision());
}

std::string_view Convolution::name() const {
  switch (result) {
    case kEntries:
      return "transposed_convolution";
    case kFilter:
      return "convolution_filter_gradient";
    case kWindows:
      break;
  }
  return kConvolution;
}

std::string Convolution::attributes() const {
  const std::string text = to_string(windows);
  return precision == MatmulPrecision::kFull ? text : fmt::format("{}, {}", text, short_name(precision));
}

Tensors Convolution::gradient(const Tensors& dy) const {
  const MatmulPrecisionScope scope(graph(), precision);
  Tensors operands(3);
  operands[role(0)] = input(0);
  operands[role(1)] = input(1);
  operands[result] = cast(dy[0], input(0).dtype());
  Tensors gradients;
  for (int i = 0; i < 2; ++i) {
    Tensors others;
    for (int r = 0; r < 3; ++r) {
      if (r != role(i)) others.push_back(operands[r]);
    }
    gradients.push_back(
        graph()
            .add<Convolution>(role(i), others[0], others[1], windows, input(i).shape(), input(i).dtype())
            .output());
  }
  return gradients;
}

ConvolutionClasses classify(const std::array<Shape, 3>& shapes, const std::vector<Window>& windows) {
  const auto& [entries, filter, window] = shapes;
  ConvolutionClasses classes;
  for (const Dimension& d : entries) {
    if (is_window(windows, d.name)) continue;
    const bool in_filter = filter.contains(d.name), in_windows = window.contains(d.name);
    MTF_CHECK(in_filter || in_windows, "`{}` is in one operand alone", d.name);
    Shape& shape = in_filter && in_windows ? classes.groups : in_filter ? classes.inputs : classes.batch;
    shape = shape + d;
  }
  for (const Dimension& d : filter) {
    if (!is_window(windows, d.name) && !entries.contains(d.name)) classes.outputs = classes.outputs + d;
  }
  return classes;
}

ShardingRule Convolution::sharding_rule(const ShardingRequest& request) const {
  Shape summed;
  for (const Dimension& d : joint_shape()) {
    if (!outputs()[0].shape.contains(d.name)) summed = summed + d;
  }
  return shard_reduction(*this, request, summed, Reduction::kSum);
}

std::vector<std::string> Convolution::unsplittable() const {
  std::vector<std::string> names;
  for (const Window& window : windows) names.push_back(window.filter);
  return names;
}

Shape Convolution::joint_shape() const {
  Shape joint = input(0).shape();
  for (const Shape& shape : {input(1).shape(), outputs()[0].shape}) {
    for (const Dimension& d : shape) {
      if (!joint.contains(d.name)) joint = joint + d;
    }
  }
  return joint;
}

bool Convolution::needs_expansion(const ShardingRequest& request) const {
  return splits_windows(windows, request.rules);
}

Tensors Convolution::expand(const Tensors& inputs, const LayoutMap& rules) const {
  const MatmulPrecisionScope scope(graph(), precision);
  const auto extended = result == kEntries ? WindowBlocks::kWindows : WindowBlocks::kEntries;
  const WindowBlocks blocks(windows, extended, {inputs[0].shape(), inputs[1].shape(), outputs()[0].shape},
                            rules);
  const auto in_blocks = [&](int i) {
    if (role(i) == kFilter) return inputs[i];
    const bool has_margins = (role(i) == kEntries) == (extended == WindowBlocks::kEntries);
    return has_margins ? blocks.extended(inputs[i]) : blocks.cut(inputs[i]);
  };
  const Shape& shape = outputs()[0].shape;
  const Tensor y = graph()
                       .add<Convolution>(result, in_blocks(0), in_blocks(1), blocks.windows(),
                                         result == kFilter ? shape : blocks.cut(shape), outputs()[0].dtype)
                       .output();
  return {result == kFilter ? y : blocks.joined(y)};
}

Tensor Convolution::wide_sum() const {
  const MatmulPrecisionScope scope(graph(), precision);
  return graph()
      .add<Convolution>(result, input(0), input(1), windows, outputs()[0].shape, DType::kFloat32)
      .output();
}

std::array<Shape, 3> Convolution::by_role(const std::vector<Shape>& inputs, const Shape& output) const {
  std::array<Shape, 3> shapes;
  for (int i = 0; i < 2; ++i) shapes[role(i)] = inputs[i];
  shapes[result] = output;
  return shapes;
}

bool Convolution::suits_winograd() const {
  constexpr int64_t kFewestChannels = 16, kFewestEntries = 4;  // with which the transforms pay
  if (windows.size() != 2 || precision == MatmulPrecision::kBFloat16) return false;
  for (const Window& w : windows) {
    if (w.size != 3 || w.stride != 1 || w.dilation != 1) return false;
    if (std::min(w.entries.size, w.windows.size) < kFewestEntries) return false;
  }
  const bool in_float32 = input(0).dtype() == DType::kFloat32 && input(1).dtype() == DType::kFloat32 &&
                          outputs()[0].dtype == DType::kFloat32;
  const std::array<Shape, 3> shapes = by_role({input(0).shape(), input(1).shape()}, outputs()[0].shape);
  const ConvolutionClasses classes = classify(shapes, windows);
  if (!in_float32 || classes.groups.rank() > 0 || classes.inputs.rank() != 1 || classes.outputs.rank() != 1)
    return false;
  const Dimension in = classes.inputs[0], out = classes.outputs[0];
  const auto last = [&](Role role, const Dimension& d) {
    return shapes[role].dimensions().back().name == d.name;
  };
  return std::min(in.size, out.size) >= kFewestChannels && last(kEntries, in) && last(kFilter, out) &&
         last(kWindows, out);
}

Cost Convolution::cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const {
  Cost cost = Operation::cost(inputs, outputs);
  const std::array<Shape, 3> shapes = by_role(inputs, outputs[0]);
  // The products of one window: the filter's elements, for each of the batch and each window.
  double products = static_cast<double>(shapes[kFilter].size());
  for (const Dimension& d : shapes[kWindows]) {
    if (!shapes[kFilter].contains(d.name)) products *= static_cast<double>(d.size);
  }
  cost.flops = 2 * products;
  return cost;
}

}  // namespace mtf
