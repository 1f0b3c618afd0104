#include "engine/backend/cpu/contractions/contraction_axes.h"

#include <algorithm>
#include <optional>

namespace mtf {

StridedAxes<3> contraction_axes(const Shape& dimensions, const KernelContext& context,
                                ContractionOperand order) {
  StridedAxes<3> axes;
  const LocalTensor* operands[] = {&context.inputs[0], &context.inputs[1], &context.outputs[0]};
  for (const Dimension& d : dimensions) {
    StridedAxis<3> axis;
    for (size_t i = 0; i < 3; ++i) {
      const std::optional<int> position = operands[i]->global.find(d.name);
      if (!position) continue;
      axis.size = operands[i]->local[*position].size;
      axis.strides[i] = operands[i]->strides[*position];
    }
    axes.push_back(axis);
  }
  std::ranges::stable_sort(
      axes, [order](const auto& x, const auto& y) { return x.strides[order] > y.strides[order]; });
  return joined(axes);
}

}  // namespace mtf
