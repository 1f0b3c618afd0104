// BroadcastOperand is an input that is broadcast by name to the output, as a kernel over the output's
// elements sees it.
//
//   const BroadcastOperand<T> a(context, 0);      // on the host; a.with(call, 0) adds the data
//   a.load<N>(a.at(first))        // the elements for elements first .. first + N - 1 of the output
#pragma once

#include <cstdint>
#include <utility>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/kernel.h"

namespace mtf::cuda {

template <class T>
class BroadcastOperand {
 public:
  /// Input `input` of the operation, without data.
  BroadcastOperand(const KernelContext& context, int input) : walk_(input_axes(context, input)) {}
  BroadcastOperand with(const KernelCall& call, int input) const {
    BroadcastOperand result = *this;
    result.data_ = call.input<T>(input);
    return result;
  }

  /// True if wherever `count` elements of the output are contiguous, the operand's are too, or are all the
  /// same.
  bool in_packs(int64_t count) const {
    if (walk_.rank() <= 1) return walk_.inner_stride(0) <= 1;
    return walk_.inner_stride(0) == 0 ? walk_.inner_size() % count == 0 : walk_.in_packs(0, count);
  }

  const Strided<1>& walk() const { return walk_; }

  /// The element for element `first` of the output.
  MTF_DEVICE const T* at(int64_t first) const { return data_ + walk_.at(first)[0]; }
  /// The elements for N elements of the output, the first of them at `at`. N is 1, or a number for which
  /// in_packs() holds.
  template <int N>
  MTF_DEVICE Pack<T, N> load(const T* at) const {
    return load_along<N>(walk_, at);
  }

 private:
  /// The axes of the output, with the strides of the input.
  static StridedAxes<1> input_axes(const KernelContext& context, int input) {
    const LocalTensor& output = context.outputs[0];
    StridedAxes<1> axes;
    for (int axis : memory_order(output)) {
      const Dimension& d = output.local[axis];
      axes.push_back({d.size, {stride_of(context.inputs[input], d.name)}});
    }
    return axes;
  }

  const T* data_ = nullptr;
  Strided<1> walk_;
};

}  // namespace mtf::cuda
