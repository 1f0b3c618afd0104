#include "engine/backend/cpu/contractions/convolution_plan.h"

#include <algorithm>

namespace mtf {
namespace {

/// The roles of A, B and C by result.
constexpr Convolution::Role kRoles[3][3] = {
    {Convolution::kWindows, Convolution::kFilter, Convolution::kEntries},
    {Convolution::kEntries, Convolution::kWindows, Convolution::kFilter},
    {Convolution::kEntries, Convolution::kFilter, Convolution::kWindows}};

WindowAxis window_axis(const ConvolutionOperands& operands, const KernelContext& context,
                       const Window& window) {
  WindowAxis axis{.placed = {context, window, *operands.by_role[Convolution::kEntries],
                             *operands.by_role[Convolution::kWindows]}};
  for (size_t i = 0; i < 3; ++i) {
    const bool is_filter = operands.role_of(i) == Convolution::kFilter;
    const LocalTensor& x = *operands.by_place[i];
    axis.strides[i] = x.strides[*x.global.find(is_filter ? window.filter : window.dimension)];
  }
  if (!window.blocks.empty()) axis.block_strides = operands.axis(window.blocks).strides;
  return axis;
}

}  // namespace

ConvolutionOperands::ConvolutionOperands(const KernelContext& context)
    : operation(static_cast<const Convolution&>(context.operation)) {
  for (int i = 0; i < 2; ++i) by_role[operation.role(i)] = &context.inputs[static_cast<size_t>(i)];
  by_role[operation.result] = &context.outputs[0];
  for (size_t i = 0; i < 3; ++i) by_place[i] = by_role[role_of(i)];
  classes = classify({by_role[0]->global, by_role[1]->global, by_role[2]->global}, operation.windows);
}

Convolution::Role ConvolutionOperands::role_of(size_t place) const { return kRoles[operation.result][place]; }

StridedAxis<3> ConvolutionOperands::axis(const std::string& name) const {
  StridedAxis<3> axis;
  for (size_t i = 0; i < 3; ++i) {
    const auto position = by_place[i]->global.find(name);
    if (!position) continue;
    axis.size = by_place[i]->local[*position].size;
    axis.strides[i] = by_place[i]->strides[*position];
  }
  return axis;
}

StridedAxes<3> ConvolutionOperands::axes(const Shape& dimensions, size_t place) const {
  StridedAxes<3> axes;
  for (const Dimension& d : dimensions) axes.push_back(axis(d.name));
  std::ranges::stable_sort(
      axes, [place](const auto& x, const auto& y) { return x.strides[place] > y.strides[place]; });
  return joined(axes);
}

ConvolutionPlan::ConvolutionPlan(const ConvolutionOperands& operands, const KernelContext& context)
    : result(operands.operation.result) {
  const ConvolutionClasses& classes = operands.classes;
  Shape batch = classes.batch;
  for (const Window& window : operands.operation.windows) {
    windows.push_back(window_axis(operands, context, window));
    batch = without(batch, window.blocks);
  }
  loops = operands.axes(classes.groups, kC);
  if (sums_images()) {
    // In declared order and not joined: the order of the sums must not depend on the sizes of other slices.
    for (const Dimension& d : batch) images.push_back(operands.axis(d.name));
  } else {
    images = operands.axes(batch, kA);
  }
  const bool a_has_inputs = result != Convolution::kEntries;
  channels = operands.axes(a_has_inputs ? classes.inputs : classes.outputs, kA);
  StridedAxes<3> all_columns = operands.axes(a_has_inputs ? classes.outputs : classes.inputs, kC);
  if (!all_columns.empty()) {
    columns = all_columns.back();
    all_columns.pop_back();
  }
  loops.insert(loops.end(), all_columns.begin(), all_columns.end());
}

}  // namespace mtf
