#pragma once

#include <memory>

#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// Attention by cuDNN for the calling thread's device. Throws Error (kSystem) if the library is missing or too
/// old.
std::unique_ptr<AttentionLibrary> open_cudnn(Device& device);

}  // namespace mtf::cuda
