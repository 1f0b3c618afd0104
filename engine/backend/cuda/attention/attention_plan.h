// How the kernels of attention walk over the operands of an operation.
#pragma once

#include <memory>

#include "engine/backend/cuda/attention/attention_view.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/kernel.h"
#include "engine/ops/attention.h"

namespace mtf::cuda {

class AttentionPlan {
 public:
  AttentionPlan(const KernelContext& context, Device& device);

  /// Without data.
  const AttentionView& view() const { return view_; }
  AttentionView view(const KernelCall& call) const;

 private:
  AttentionView view_;
  int inputs_[AttentionView::kOperands];  ///< which input an operand is; -1: none
  int outputs_[AttentionView::kOperands];
  int length_axis_ = -1;                ///< of q
  std::shared_ptr<std::byte> buckets_;  ///< memory of the device
};

/// That of a kernel whose scratch bytes are MemoryParts.
template <class Part>
Part* part_of_scratch(const KernelCall& call, int64_t begin) {
  return reinterpret_cast<Part*>(call.scratch + begin);
}

}  // namespace mtf::cuda
