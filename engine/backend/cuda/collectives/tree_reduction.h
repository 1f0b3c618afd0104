// Combines elements from several places in the order of a tree (engine/comm/tree_sum.h), on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/comm/tree_sum.h"

namespace mtf::cuda {

class DeviceReduction {
 public:
  /// Parts of contiguous elements. Parts of the result are contiguous as well.
  struct Operand {
    const std::byte* data = nullptr;
    int64_t row = 0;  ///< elements between the begins of adjacent parts
  };

  virtual ~DeviceReduction() = default;
  /// `operands` are indexed by TreeNode::member; `part` and `size` count elements of a part and in all.
  virtual void run(const Launcher& launch, std::span<const Operand> operands, int64_t part, int64_t size,
                   std::byte* result) const = 0;
};

/// With `is_rounded` the result has type `dtype`, else the accumulator's type.
std::unique_ptr<DeviceReduction> prepare_device_reduction(const std::vector<TreeNode>& tree, DType dtype,
                                                          Reduction reduction, bool is_rounded,
                                                          Device& device);

}  // namespace mtf::cuda
