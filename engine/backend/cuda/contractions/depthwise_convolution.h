// Convolutions without summed and without output channels, which are no matrix products.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backend/cuda/contractions/convolution_operands.h"
#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// The operands have neither `inputs` nor `outputs` of more than one entry. `flops` is what a call returns.
std::unique_ptr<Kernel> make_depthwise_convolution(const ConvolutionOperands& operands, Device& device,
                                                   int64_t flops);

}  // namespace mtf::cuda
