// Contractions as kernels, for operations that arrange their operands themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/backend/cuda/contractions/einsum_plan.h"
#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// A kernel with inputs a, b, possibly a bias and possibly an addend, and one output: products by the library
/// (einsum_plan.h), or inner products if there are neither rows nor columns. `accumulates` is
/// KernelContext::accumulates. Calls may have a guard if `output_in_scratch` is true.
std::unique_ptr<Kernel> make_product(const Contraction& contraction, bool accumulates, Device& device);

/// The alignment of operands in scratch and of the library's workspace.
inline constexpr int64_t kScratchAlignment = 256;

constexpr int64_t scratch_aligned(int64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}
inline std::byte* scratch_aligned(std::byte* address) {
  return reinterpret_cast<std::byte*>(scratch_aligned(reinterpret_cast<int64_t>(address)));
}

}  // namespace mtf::cuda
