// An input of an operation that broadcasts its inputs by name to its output, as a kernel over the output's
// elements sees it.
//
//   const BroadcastOperand<T> a(broadcast_axes<1>(...));               // host
//   a.load<N>(first)        // the elements that meet elements first .. first + N - 1 of the output
#pragma once

#include <utility>

#include "engine/backend/broadcast_axes.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/kernel.h"

namespace mtf::cuda {

template <class T>
class BroadcastOperand {
 public:
  /// Input `input` of the operation; the data comes with the call.
  BroadcastOperand(const KernelContext& context, int input) : walk_(input_axes(context, input)) {}
  BroadcastOperand with(const KernelCall& call, int input) const {
    BroadcastOperand result = *this;
    result.data_ = call.input<T>(input);
    return result;
  }

  /// Where `count` elements of the output follow each other, so do the operand's, or it has one for them all.
  bool in_packs(int64_t count) const {
    if (walk_.rank() <= 1) return walk_.inner_stride(0) <= 1;
    return walk_.inner_stride(0) == 0 ? walk_.inner_size() % count == 0 : walk_.in_packs(0, count);
  }

  const Strided<1>& walk() const { return walk_; }

  /// What meets element `first` of the output.
  MTF_DEVICE const T* at(int64_t first) const { return data_ + walk_.at(first)[0]; }
  /// What meets elements first .. first + N - 1; N is 1, or a number for which in_packs() holds.
  template <int N>
  MTF_DEVICE Pack<T, N> load(const T* at) const {
    return load_along<N>(walk_, at);
  }

 private:
  /// The axes of the output; strides of the input.
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
