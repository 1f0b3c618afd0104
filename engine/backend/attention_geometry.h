// The operands of attention and of its gradient as kernels see them on one position: sizes, axes and strides.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"
#include "engine/ops/attention.h"

namespace mtf {

/// Further operands beside those of the operation. Gradients have the layout of what they are gradients of.
struct AttentionKernelOperands : AttentionOperands {
  enum : int { kResult = AttentionOperands::kOperands, kLogSum, kDBias, kOperands };
};

struct AttentionGeometry : AttentionKernelOperands {
  /// With `copies_apart` the dimension options.copies of attention to a shared prefix is a copy axis, else an entry axis.
  explicit AttentionGeometry(const KernelContext& context, bool copies_apart = false);

  /// The index of the first query of the slice.
  int64_t first_query(const KernelCall& call) const {
    return length_axis < 0 ? 0 : call.inputs[0].begin[length_axis];
  }

  /// The index of the input or output that is each operand; -1 if absent.
  std::array<int, kOperands> inputs, outputs;
  int64_t memory, key, value;
  int64_t key_stride, value_stride;  ///< strides of memory_length in k and in v
  int length_axis = -1;              ///< axis of q; -1 if there is one query
  int64_t queries = 1;
  Offsets<kOperands> length_strides{};  ///< those of the memory are 0
  /// The other dimensions of q: those that k has, apart from copies, and those that it lacks.
  StridedAxes<kOperands> entry_axes, copy_axes, head_axes;
  /// The buckets of the bias for relative positions from -max_distance to max_distance; empty without a bias.
  std::vector<int32_t> buckets;
  int64_t bucket_count = 0, max_distance = 0;

 private:
  /// Sets `inputs` and `outputs`.
  void find_operands(const KernelContext& context);
};

}  // namespace mtf
