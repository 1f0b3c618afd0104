// EmulatedDevice is a GPU in the host's memory. Enqueued work runs on the thread that waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/backend/cuda/device/device.h"
#include "tests/emulated_gpu/fault.h"
#include "tests/emulated_gpu/interpreted_fusions.h"
#include "tests/emulated_gpu/memory.h"
#include "tests/emulated_gpu/streams.h"

namespace mtf::cuda::emulator {

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(DeviceInfo info);
  /// Aborts if memory was not freed.
  ~EmulatedDevice() override;

  const DeviceInfo& info() const override { return info_; }
  /// Nothing is taken but by allocations, in blocks as on a GPU.
  DeviceMemoryState memory_state() override;
  std::byte* allocate(int64_t bytes) override;
  void free(std::byte* memory) override;
  std::unique_ptr<PinnedMemory> allocate_pinned(int64_t bytes) override;
  std::byte* allocate_mapped(int64_t bytes) override;
  void free_mapped(std::byte* memory) override;
  Stream compute() override { return streams_.front()->handle(); }
  std::unique_ptr<Event> make_event() override { return make_emulated_event(*this); }
  Stream make_stream() override;
  /// Aborts if memory is neither a device's nor pinned, or if it is pinned during a recording; and when the
  /// copy runs if pinned memory has changed since. Pinned memory that is copied to holds NaN until then.
  void copy(Stream stream, std::byte* to, const std::byte* from, int64_t bytes) override;
  void zero(Stream stream, std::byte* to, int64_t bytes) override;
  void wait(Stream stream) override;
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override;
  MatmulLibrary& matmuls() override { return *matmuls_; }
  AttentionLibrary* attention_library() override { return attention_.get(); }
  FusionKernels* fusions() override { return fusions_.get(); }
  std::unique_ptr<DeviceClock> make_clock() override;

  void enqueue(Stream stream, Work work, When when = When::kAwaited);
  /// Aborts during record().
  void check_not_recording(const char* call) const;
  FaultInjection& faults() { return faults_; }
  bool is_recording() const { return recording_; }
  /// The number of the next launch.
  uint64_t next_launch() { return launches_++; }

 private:
  /// Throws Error with MTF_EMULATED_CUDNN=none.
  void load_attention_library() override;
  void check_memory(Stream stream, const std::byte* begin, int64_t bytes) const;

  DeviceInfo info_;
  FaultInjection faults_;
  std::map<std::byte*, std::unique_ptr<Memory>> memory_;
  std::map<std::byte*, std::unique_ptr<Memory>> mapped_;  ///< the host's; the device uses it as its own
  std::vector<std::unique_ptr<EmulatedStream>> streams_;
  bool recording_ = false;
  uint64_t launches_ = 0;
  std::unique_ptr<MatmulLibrary> matmuls_;
  std::unique_ptr<AttentionLibrary> attention_;
  const std::unique_ptr<FusionKernels> fusions_ = make_interpreted_fusions();
};

std::unique_ptr<MatmulLibrary> make_matmul_library(EmulatedDevice& device);
/// It has no plan for memories of kUnsupportedMemory entries.
std::unique_ptr<AttentionLibrary> make_attention_library(EmulatedDevice& device);
inline constexpr int64_t kUnsupportedMemory = 77;

}  // namespace mtf::cuda::emulator
