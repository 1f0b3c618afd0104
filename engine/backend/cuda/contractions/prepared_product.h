// The products of a contraction, prepared with the matmul library, or without it where the library has no
// algorithm.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backend/cuda/contractions/einsum_plan.h"
#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

struct PreparedProduct {
  EinsumPlan plan;
  std::shared_ptr<const Matmul> setting;  ///< sets the output; null if all calls add
  std::shared_ptr<const Matmul> adding;   ///< adds to the output or the addend; null if nothing does

  int64_t workspace_bytes() const;
};

/// Asks the library for the best plan; then for products alone, whose results a kernel finishes; then for
/// products of packed operands that are aligned to 16 bytes; and takes plain_matmul.h where it has none of
/// these. So the choice depends on the contraction and the library alone. Everything but the first is noted
/// on the device. `accumulates`: later calls add to an output that is not packed.
PreparedProduct prepare_product(const Contraction& contraction, bool accumulates, Device& device);

}  // namespace mtf::cuda
