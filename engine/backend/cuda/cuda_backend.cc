#include "engine/backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/backend/cuda/movement/moves.h"
#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

class Allocation final : public DeviceMemory {
 public:
  Allocation(std::shared_ptr<Device> device, int64_t bytes, std::shared_ptr<std::atomic<int64_t>> allocated)
      : device_(std::move(device)),
        data_(device_->allocate(std::max<int64_t>(bytes, 1))),
        bytes_(bytes),
        allocated_(std::move(allocated)) {
    *allocated_ += bytes_;
  }
  ~Allocation() override {
    device_->free(data_);
    *allocated_ -= bytes_;
  }
  std::byte* data() override { return data_; }

 private:
  std::shared_ptr<Device> device_;
  std::byte* data_;
  int64_t bytes_;
  std::shared_ptr<std::atomic<int64_t>> allocated_;  ///< bytes of all allocations
};

class MappedAllocation final : public DeviceMemory {
 public:
  MappedAllocation(std::shared_ptr<Device> device, int64_t bytes)
      : device_(std::move(device)), data_(device_->allocate_mapped(std::max<int64_t>(bytes, 1))) {}
  ~MappedAllocation() override { device_->free_mapped(data_); }
  std::byte* data() override { return data_; }

 private:
  std::shared_ptr<Device> device_;
  std::byte* data_;
};

}  // namespace

std::unique_ptr<DeviceMemory> CudaBackend::allocate(int64_t bytes) {
  try {
    return std::make_unique<Allocation>(device_, bytes, allocated_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory || memory_plan_.empty()) throw;
    const Problem& problem = error.problems().front();
    throw Error(ErrorKind::kMemory, fmt::format("{}; {}", problem.message, memory_plan_), problem.hint);
  }
}

std::unique_ptr<DeviceMemory> CudaBackend::allocate_on_host(int64_t bytes) {
  try {
    return std::make_unique<MappedAllocation>(device_, bytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMemory) throw;
    throw Error(ErrorKind::kMemory, error.problems().front().message,
                "`offload.slots: device` or `offload.activations: device`, `precision.slots: int8`, an "
                "`optimizer_layout` that splits the slots, or a larger `offload.least_bytes`");
  }
}

std::unique_ptr<Kernel> CudaBackend::prepare(const KernelContext& context) {
  return prepare_device_kernel(context, *device_);
}

std::unique_ptr<Kernel> CudaBackend::prepare(const Move& move) { return prepare_device_move(move, *device_); }

std::unique_ptr<PreparedCollective> CudaBackend::prepare(const Collective& collective) {
  return prepare_device_collective(collective, *device_);
}

void CudaBackend::copy_blocks(std::span<const BlockCopy> copies) {
  cuda::copy_blocks(Launcher(*device_, nullptr), copies);
}

std::unique_ptr<BlockTransfer> CudaBackend::make_block_transfer(std::byte* to, int64_t bytes) {
  return cuda::make_block_transfer(*device_, to_device_, to, bytes, allocate(2 * bytes),
                                   [this](const std::function<void()>& call) { watched(call); });
}

/// Concurrent copies wait for no collective: the work before them is complete when they are awaited.
std::unique_ptr<HostCopy> CudaBackend::make_host_copy(CopySources sources, CopyOrder order) {
  const auto wait_for = [this, order](const std::function<void()>& call) {
    order == CopyOrder::kInLine ? watched(call) : call();
  };
  return cuda::make_host_copy(*device_, to_host_, std::move(sources), order, wait_for);
}

std::unique_ptr<MemoryTransfer> CudaBackend::make_memory_transfer(std::vector<MemoryTransfer::Part> parts,
                                                                  TransferDirection direction) {
  const Stream copies = direction == TransferDirection::kToHost ? to_host_ : to_device_;
  return cuda::make_memory_transfer(*device_, copies, std::move(parts));
}

std::unique_ptr<Recording> CudaBackend::record(const std::function<void()>& enqueue) {
  try {
    return device_->record(enqueue);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeerLost) throw;
    notes_.push_back(
        {true, fmt::format("steps run without CUDA graphs: {}", error.problems().front().message)});
    return nullptr;
  }
}

std::vector<BackendNote> CudaBackend::take_notes() {
  std::vector<BackendNote> notes = std::exchange(notes_, {});
  std::ranges::move(device_->take_notes(), std::back_inserter(notes));
  return notes;
}

bool CudaBackend::use_attention_library(AttentionLibraryUse use) {
  device_->use_attention_library(use);
  return true;
}

void CudaBackend::compile() {
  if (device_->fusions() != nullptr) device_->fusions()->compile();
}

std::string CudaBackend::instruction_set() const {
  const DeviceInfo& info = device_->info();
  std::string text =
      fmt::format("{}x{} {}", info.architecture(), info.multiprocessors, device_->matmuls().version());
  const std::string fusions = device_->fusions() == nullptr ? "" : device_->fusions()->version();
  if (!fusions.empty()) text += " " + fusions;
  if (const AttentionLibrary* library = device_->attention_library()) text += " " + library->version();
  return text;
}

}  // namespace mtf::cuda
