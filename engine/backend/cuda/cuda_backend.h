// The kernels of the CUDA backend on one device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device.h"
#include "engine/backend/cuda/staging.h"

namespace mtf::cuda {

/// Kernels and collectives are enqueued on the device's compute stream.
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<Device> device) : device_(std::move(device)), staging_(*device_) {}

  std::unique_ptr<DeviceMemory> allocate(int64_t bytes) override;
  std::unique_ptr<Kernel> prepare(const KernelContext& context) override;
  std::unique_ptr<Kernel> prepare(const Move& move) override;
  std::unique_ptr<PreparedCollective> prepare(const Collective& collective) override;
  /// "sm_90x132 cublaslt 13.1.0": cuBLASLt's bits depend on the number of multiprocessors, too.
  std::string instruction_set() const override;

  bool is_host() const override { return false; }
  void write(std::byte* to, const std::byte* from, int64_t bytes) override {
    staging_.write(to, from, bytes);
  }
  void read(std::byte* to, const std::byte* from, int64_t bytes) override { staging_.read(to, from, bytes); }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    device_->copy(device_->compute(), to, from, bytes);
  }
  void zero(std::byte* to, int64_t bytes) override { device_->zero(device_->compute(), to, bytes); }
  void wait() override { device_->wait(device_->compute()); }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    return device_->record(enqueue);
  }
  int64_t memory_bytes() const override { return *allocated_; }
  std::unique_ptr<DeviceClock> make_clock() override { return device_->make_clock(); }
  ProfileObserver* profile_observer() override { return device_->profile_observer(); }

 private:
  std::shared_ptr<Device> device_;  ///< memory keeps it too
  const std::shared_ptr<std::atomic<int64_t>> allocated_ = std::make_shared<std::atomic<int64_t>>(0);
  Staging staging_;
};

}  // namespace mtf::cuda
