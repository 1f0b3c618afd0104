// Matrix products by a simple kernel, for problems for which the library has no algorithm.
#pragma once

#include <memory>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// Any strides and alignments; neither bias nor epilogue. Each entry is one sum over k in order, so its bits
/// depend on its row and column alone.
std::shared_ptr<const Matmul> make_plain_matmul(Device& device, const MatmulProblem& problem);

}  // namespace mtf::cuda
