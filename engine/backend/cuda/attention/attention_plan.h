// AttentionPlan describes how the attention kernels iterate over the operands of an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/backend/attention_geometry.h"
#include "engine/backend/cuda/attention/attention_view.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/kernel.h"

namespace mtf::cuda {

class AttentionPlan {
 public:
  AttentionPlan(const KernelContext& context, Device& device);

  /// The view without data pointers.
  const AttentionView& view() const { return view_; }
  /// The view with the data of a call.
  AttentionView view(const KernelCall& call) const;

 private:
  AttentionView view_;
  AttentionGeometry geometry_;
  std::shared_ptr<std::byte> buckets_;  ///< in device memory
};

/// The part of scratch at offset `begin`, for a kernel whose scratch is laid out by MemoryParts.
template <class Part>
Part* part_of_scratch(const KernelCall& call, int64_t begin) {
  return reinterpret_cast<Part*>(call.scratch + begin);
}

}  // namespace mtf::cuda
