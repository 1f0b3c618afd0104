// The transfers of a GPU, on streams of their own: blocks of inputs that arrive while it computes, and copies
// for the host in pinned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"

namespace mtf::cuda {

/// Runs a call that waits for the device.
using WaitFor = std::function<void(const std::function<void()>& call)>;

/// Copies from pinned to device memory on the stream `copies`, and from there to `to` on the compute stream,
/// where that takes a small part of the time. Kernels, and recordings of them, thus always read the same
/// addresses. `landing` is two blocks of device memory, each of `bytes` bytes.
std::unique_ptr<BlockTransfer> make_block_transfer(Device& device, Stream copies, std::byte* to,
                                                   int64_t bytes, std::unique_ptr<DeviceMemory> landing,
                                                   WaitFor wait_for);

/// Copies on the stream `copies`, which waits for the compute stream where they begin; the compute stream waits for them
/// where they are awaited.
std::unique_ptr<MemoryTransfer> make_memory_transfer(Device& device, Stream copies,
                                                     std::vector<MemoryTransfer::Part> parts);

/// Copies to pinned memory: on the compute stream (CopyOrder::kInLine) or on `copies`.
std::unique_ptr<HostCopy> make_host_copy(Device& device, Stream copies, CopySources sources, CopyOrder order,
                                         WaitFor wait_for);

}  // namespace mtf::cuda
