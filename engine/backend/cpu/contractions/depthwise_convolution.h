// Depthwise convolutions: every channel by itself, so that there is no matrix product. Rows of channels are multiplied
// elementwise and added, place by place of the filter.
#pragma once

#include <memory>

#include "engine/backend/cpu/contractions/convolution_plan.h"
#include "engine/backend/kernel.h"

namespace mtf {

/// The kernel of a convolution all of whose channels are groups, which are the last dimensions of each operand; else null.
std::unique_ptr<Kernel> depthwise_convolution_kernel(const ConvolutionOperands& operands,
                                                     const KernelContext& context);

}  // namespace mtf
