// Device is one GPU as the CUDA backend sees it: memory, a queue of work, recordings of it, and the libraries
// that come with it. There are two implementations: the CUDA runtime (nvidia/), and the host for tests
// (tests/emulated_gpu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/library_attention.h"
#include "engine/backend/cuda/device/matmul.h"
#include "engine/backend/device_info.h"

namespace mtf::cuda {

class FusionKernels;

/// A queue whose work runs in the order in which it was enqueued. `handle` is a cudaStream_t, or the
/// emulator's equivalent.
struct Stream {
  void* handle = nullptr;
};

/// Host memory from which and to which the device copies concurrently with other work.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
  virtual std::byte* data() = 0;
};

/// A point in a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream stream) = 0;
  /// Makes later work of `stream` begin after the point.
  virtual void wait_in(Stream stream) = 0;
  /// Waits for the point on the host.
  virtual void wait() = 0;
};

/// All calls throw Error (kSystem, kMemory) with CUDA's message. Errors of enqueued work are reported by a
/// later call.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// The memory at this moment.
  virtual DeviceMemoryState memory_state() = 0;
  /// Zeroed memory, aligned to 256 bytes; must be released with free().
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;
  virtual std::unique_ptr<PinnedMemory> allocate_pinned(int64_t bytes) = 0;
  /// Zeroed pinned memory that kernels and copies use as they use the device's own; must be released with
  /// free_mapped().
  virtual std::byte* allocate_mapped(int64_t bytes) = 0;
  virtual void free_mapped(std::byte* memory) = 0;
  /// The stream of kernels. The call makes this the device of the calling thread.
  virtual Stream compute() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual Stream make_stream() = 0;  ///< lives as long as the device

  /// copy() and zero() enqueue. `to` and `from` are device memory or pinned memory.
  virtual void copy(Stream stream, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void zero(Stream stream, std::byte* to, int64_t bytes) = 0;
  /// Waits for everything that was enqueued on the stream.
  virtual void wait(Stream stream) = 0;
  /// Calls `enqueue` and records, without running it, the work that it enqueues on the compute stream (and on
  /// streams that wait for it and that it waits for). `enqueue` must not read, allocate or wait.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue) = 0;
  virtual MatmulLibrary& matmuls() = 0;
  /// Loads the library of attention, which is to be used so.
  void use_attention_library(AttentionLibraryUse use) {
    load_attention_library();
    attention_use_ = use;
  }
  /// Null if it was not loaded.
  virtual AttentionLibrary* attention_library() = 0;
  AttentionLibraryUse attention_use() const { return attention_use_; }
  /// Null if no compiler of kernels was found; take_notes() then says so.
  virtual FusionKernels* fusions() = 0;
  /// A clock of the compute stream.
  virtual std::unique_ptr<DeviceClock> make_clock() = 0;
  virtual ProfileObserver* profile_observer() { return nullptr; }

  /// Keeps a message for the user, once. From any thread.
  void note(BackendNote note);
  /// The notes since the last call.
  std::vector<BackendNote> take_notes();

 private:
  virtual void load_attention_library() = 0;

  AttentionLibraryUse attention_use_ = AttentionLibraryUse::kWhereItComputes;
  std::mutex notes_mutex_;  ///< guards the two members below
  std::vector<BackendNote> notes_;
  std::set<std::string> noted_;  ///< the texts of all notes
};

/// Throws Error: kNoDevice if there is no driver or no device, kSystem for anything else.
std::vector<DeviceInfo> visible_devices();
/// Throws Error (kNoDevice, kSystem).
std::unique_ptr<Device> open_device(int index);

}  // namespace mtf::cuda
