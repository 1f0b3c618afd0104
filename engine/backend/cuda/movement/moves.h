// Movements of data that belong to no operation, and collectives among positions of one device.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

std::unique_ptr<Kernel> prepare_device_move(const Move& move, Device& device);
std::unique_ptr<PreparedCollective> prepare_device_collective(const Collective& collective, Device& device);

}  // namespace mtf::cuda
