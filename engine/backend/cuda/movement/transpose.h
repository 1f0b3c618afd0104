// Copies tensors into another order of axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/strided.h"

namespace mtf::cuda {

/// Enqueues the copy.
using Transposition = std::function<void(const Launcher&, const std::byte* from, std::byte* to)>;

/// `axes` are in the memory order of `to`, with the strides of `from` and `to`; `element` is the size in
/// bytes. `from` and `to` begin at multiples of `alignment` bytes, a power of two.
Transposition make_transposition(const StridedAxes<2>& axes, int64_t element, int64_t alignment = 16);

}  // namespace mtf::cuda
