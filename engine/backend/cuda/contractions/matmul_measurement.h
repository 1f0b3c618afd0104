// Measures the algorithms of a matrix product on the device.
#pragma once

#include <memory>
#include <vector>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// The index of the plan that takes the least time for operands of zeros; 0 if the device has no memory for
/// the operands of two products. Waits for the device.
int fastest(Device& device, const MatmulProblem& problem,
            const std::vector<std::shared_ptr<const Matmul>>& plans);

}  // namespace mtf::cuda
