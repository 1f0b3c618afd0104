// Index arithmetic for operations whose inputs are broadcast by name to one output: the output's axes in
// memory order, with the strides of each input along them (0 where the input is repeated).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"

namespace mtf {

/// The axes of `tensor` in memory order, slowest first.
inline std::vector<int> memory_order(const LocalTensor& tensor) {
  std::vector<int> order(tensor.local.rank());
  for (int i = 0; i < tensor.local.rank(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return tensor.strides[a] > tensor.strides[b]; });
  return order;
}

/// The stride of the dimension called `name` in `tensor`; 0 if it has none.
inline int64_t stride_of(const LocalTensor& tensor, const std::string& name) {
  const std::optional<int> axis = tensor.local.find(name);
  return axis ? tensor.strides[*axis] : 0;
}

/// The joined axes of the output; strides[i] are those of input i. Entry e of a walk over them is element e
/// of the output's memory.
template <int N>
StridedAxes<N> broadcast_axes(const KernelContext& context) {
  const LocalTensor& output = context.outputs[0];
  StridedAxes<N> axes;
  for (int axis : memory_order(output)) {
    StridedAxis<N> strided{output.local[axis].size, {}};
    for (int i = 0; i < N; ++i) strided.strides[i] = stride_of(context.inputs[i], output.local[axis].name);
    axes.push_back(strided);
  }
  return joined(axes);
}

/// The joined axes of an output that has the same elements as its input; strides[0] are those of the input,
/// strides[1] those of the output.
inline StridedAxes<2> moved_axes(const KernelContext& context) {
  const LocalTensor &x = context.inputs[0], &y = context.outputs[0];
  StridedAxes<2> axes;
  for (int axis : memory_order(y)) {
    axes.push_back({y.local[axis].size, {stride_of(x, y.local[axis].name), y.strides[axis]}});
  }
  return joined(axes);
}

template <int N>
int64_t inner_stride(const StridedAxes<N>& axes, int operand) {
  return axes.empty() ? 0 : axes.back().strides[operand];
}

/// Calls visit(T()) for the unsigned integer T of `bytes` bytes; for kernels that only move elements.
template <class Visit>
auto with_element(size_t bytes, Visit&& visit) {
  switch (bytes) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

}  // namespace mtf
