// Attention by the library of a device (device/library_attention.h), if it was chosen.
#pragma once

#include <memory>

#include "engine/backend/cuda/device/device_kernel.h"

namespace mtf::cuda {

/// A kernel of attention or its gradient. Null if Device::attention_library() is null, or cannot compute the
/// operation as it is defined; a note then says why.
std::unique_ptr<Kernel> make_library_attention(const KernelContext& context, Device& device);

}  // namespace mtf::cuda
