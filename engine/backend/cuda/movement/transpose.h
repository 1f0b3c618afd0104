// Copies dense tensors into another order of axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/strided.h"

namespace mtf::cuda {

/// Enqueues the copy. `from` and `to` begin at multiples of 16 bytes.
using Transposition = std::function<void(const Launcher&, const std::byte* from, std::byte* to)>;

/// `axes` are in the memory order of `to`, with the strides of `from` and `to`; `element` is the size in
/// bytes.
Transposition make_transposition(const StridedAxes<2>& axes, int64_t element);

}  // namespace mtf::cuda
