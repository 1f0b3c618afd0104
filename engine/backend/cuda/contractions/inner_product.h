// Contractions without rows and columns: each entry of the output is an inner product of its own.
#pragma once

#include <memory>

#include "engine/backend/cuda/contractions/einsum_plan.h"
#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// `accumulates`: KernelContext::accumulates. Neither bias nor epilogue.
std::unique_ptr<Kernel> make_inner_product(const Contraction& contraction, bool accumulates, Device& device);

/// Rounds a sum of a contraction. `adds`: to what is there.
template <class A, class Out>
MTF_DEVICE void store_sum(Out* y, A sum, bool adds) {
  *y = narrow<Out>(adds ? widen(*y) + sum : sum);
}

}  // namespace mtf::cuda
