// The backend that runs the CUDA kernels on one device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/collectives/peer_watch.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/staging.h"
#include "engine/backend/cuda/device/submission.h"
#include "engine/backend/cuda/device/transfers.h"

namespace mtf::cuda {

/// Enqueues kernels and collectives on the device's compute stream. Transfers have a stream for each direction.
class CudaBackend final : public Backend {
 public:
  /// Throws Error (kUsage) if an environment variable of device/submission.h has no legal value.
  explicit CudaBackend(std::unique_ptr<Device> device)
      : device_(std::move(device)),
        staging_(*device_),
        to_device_(device_->make_stream()),
        to_host_(device_->make_stream()) {}

  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) override;
  std::unique_ptr<DeviceMemory> allocate_on_host(int64_t bytes) override;
  std::unique_ptr<Kernel> prepare(const KernelContext& context) override;
  std::unique_ptr<Kernel> prepare(const Move& move) override;
  std::unique_ptr<PreparedCollective> prepare(const Collective& collective) override;
  /// Such as "sm_90x132 cublaslt 13.1.0 nvrtc 13.0 cudnn 9.19.0": cuBLASLt's bits also depend on the number of
  /// multiprocessors, and on environment variables, which are appended.
  std::string instruction_set() const override;

  const DeviceInfo* device_info() const override { return &device_->info(); }
  bool is_host() const override { return false; }
  void write(std::byte* to, const std::byte* from, int64_t bytes) override {
    watched([&] { staging_.write(to, from, bytes); });
  }
  void read(std::byte* to, const std::byte* from, int64_t bytes) override {
    watched([&] { staging_.read(to, from, bytes); });
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    device_->copy(device_->compute(), to, from, bytes);
  }
  void copy_blocks(std::span<const BlockCopy> copies) override;
  std::unique_ptr<BlockTransfer> make_block_transfer(std::byte* to, int64_t bytes) override;
  std::unique_ptr<HostCopy> make_host_copy(CopySources sources, CopyOrder order) override;
  std::unique_ptr<MemoryTransfer> make_memory_transfer(std::vector<MemoryTransfer::Part> parts,
                                                       TransferDirection direction) override;
  void wait() override {
    watched([&] { device_->wait(device_->compute()); });
  }
  Submission submission() const override { return submission_; }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override;
  int64_t memory_bytes() const override { return *allocated_; }
  std::optional<DeviceMemoryState> memory_state() override {
    DeviceMemoryState state = device_->memory_state();
    state.host += Staging::pinned_bytes();
    return state;
  }
  void set_memory_plan(const std::string& plan) override { memory_plan_ = plan; }
  std::unique_ptr<DeviceClock> make_clock() override { return device_->make_clock(); }
  ProfileObserver* profile_observer() override { return device_->profile_observer(); }
  bool fuses_elementwise() override { return device_->fusions() != nullptr; }
  void compile() override;
  void tune(TuningRecord& record) override { device_->matmuls().tune(record); }
  bool use_attention_library(AttentionLibraryUse use) override;
  std::vector<BackendNote> take_notes() override;

  Device& device() { return *device_; }
  /// Sets the watch over calls that may wait for other processes; null if there are none.
  void set_watch(PeerWatch* watch) { watch_ = watch; }

 private:
  /// Runs `call`, which may wait for the device, under the watch.
  template <class Call>
  void watched(const Call& call) {
    watch_ == nullptr ? call() : watch_->during(call);
  }

  std::shared_ptr<Device> device_;  ///< shared with the memory that it has allocated
  const std::shared_ptr<std::atomic<int64_t>> allocated_ = std::make_shared<std::atomic<int64_t>>(0);
  std::string memory_plan_;  ///< set_memory_plan()
  const Submission submission_ = submission_of_environment();
  std::vector<BackendNote> notes_ = notes_of(submission_);
  Staging staging_;
  const Stream to_device_, to_host_;
  PeerWatch* watch_ = nullptr;
};

}  // namespace mtf::cuda
