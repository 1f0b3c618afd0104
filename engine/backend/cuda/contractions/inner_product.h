// Contractions without rows and columns: each entry of the output is a separate inner product.
#pragma once

#include <memory>

#include "engine/backend/cuda/contractions/einsum_plan.h"
#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// `accumulates` is KernelContext::accumulates. Bias and epilogue are not supported.
std::unique_ptr<Kernel> make_inner_product(const Contraction& contraction, bool accumulates, Device& device);

/// Rounds and stores a sum of a contraction. With `adds` it is added to the stored value.
template <class A, class Out>
MTF_DEVICE void store_sum(Out* y, A sum, bool adds) {
  *y = narrow<Out>(adds ? widen(*y) + sum : sum);
}

}  // namespace mtf::cuda
