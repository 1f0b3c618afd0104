#include "engine/backend/cuda/contractions/convolution_operands.h"

#include <algorithm>

#include "engine/base/check.h"

namespace mtf::cuda {

ConvolutionOperands::ConvolutionOperands(const KernelContext& context)
    : result(static_cast<const Convolution&>(context.operation).result),
      precision(static_cast<const Convolution&>(context.operation).precision) {
  const auto& operation = static_cast<const Convolution&>(context.operation);
  for (int i = 0; i < 2; ++i) by_role[operation.role(i)] = context.inputs[static_cast<size_t>(i)];
  by_role[result] = context.outputs[0];
  const auto strides_of = [&](const std::string& name) {
    Offsets<3> strides{};
    for (size_t role = 0; role < 3; ++role) {
      if (const auto axis = by_role[role].global.find(name))
        strides[role] = by_role[role].strides[static_cast<size_t>(*axis)];
    }
    return strides;
  };
  ConvolutionClasses classes =
      classify({by_role[0].global, by_role[1].global, by_role[2].global}, operation.windows);
  for (const Window& window : operation.windows) {
    ConvolutionWindow made{.placed = {context, window, of(Convolution::kEntries), of(Convolution::kWindows)},
                           .strides = strides_of(window.dimension)};
    // Kernels compute indices along a dimension in 32 bits.
    const int64_t reach = (std::max(made.placed.entries, made.placed.windows) + window.size) *
                          (window.stride + window.dilation);
    MTF_CHECK(reach < int64_t{1} << 31, "windows over {} entries of `{}`", made.placed.entries,
              window.dimension);
    made.strides[Convolution::kFilter] = strides_of(window.filter)[Convolution::kFilter];
    if (!window.blocks.empty()) {
      made.blocks = strides_of(window.blocks);
      made.all_blocks = of(Convolution::kWindows).global.dimension(window.blocks).size;
      classes.batch = without(classes.batch, window.blocks);
    }
    windows.push_back(made);
  }
  const auto axes = [&](const Shape& dimensions) {
    StridedAxes<3> made;
    for (const Dimension& d : dimensions) {
      for (const LocalTensor& x : by_role) {
        const auto axis = x.global.find(d.name);
        if (!axis) continue;
        if (x.local[*axis].size > 1) made.push_back({x.local[*axis].size, strides_of(d.name)});
        break;
      }
    }
    return made;
  };
  groups = axes(classes.groups);
  images = axes(classes.batch);
  inputs = axes(classes.inputs);
  outputs = axes(classes.outputs);
}

}  // namespace mtf::cuda
