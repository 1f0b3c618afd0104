// One GPU as the CUDA backend sees it: memory, a queue of work, recordings of it, and the libraries that come
// with it. Two implementations: nvidia/ (the CUDA runtime) and emulator/ (the host, for tests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/matmul.h"
#include "engine/backend/device_info.h"

namespace mtf::cuda {

class FusionKernels;

/// Work in the order in which it was enqueued. `handle`: a cudaStream_t, or what the emulator has in its
/// place.
struct Stream {
  void* handle = nullptr;
};

/// Host memory that copies to and from the device run beside.
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
  /// Later work of `stream` begins after the point.
  virtual void wait_in(Stream stream) = 0;
  /// Waits on the host.
  virtual void wait() = 0;
};

/// All calls throw Error (kSystem, kMemory) with CUDA's words. Errors of enqueued work come with a later
/// call.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Zeroed, aligned to 256 bytes; given back by free().
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void free(std::byte* memory) = 0;
  virtual std::unique_ptr<PinnedMemory> allocate_pinned(int64_t bytes) = 0;
  /// Of kernels. Makes this the device of the calling thread.
  virtual Stream compute() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual Stream make_stream() = 0;  ///< lives as long as the device

  /// Enqueue; `to` and `from` are memory of the device or pinned memory.
  virtual void copy(Stream stream, std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void zero(Stream stream, std::byte* to, int64_t bytes) = 0;
  /// Waits for all that was enqueued.
  virtual void wait(Stream stream) = 0;
  /// Calls `enqueue`, whose work on the compute stream (and on streams that wait for it and that it waits
  /// for) is kept and not run. It must not read, allocate or wait.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue) = 0;
  virtual MatmulLibrary& matmuls() = 0;
  /// Null: no compiler of kernels was found; take_notes() says so.
  virtual FusionKernels* fusions() = 0;
  /// Of the compute stream.
  virtual std::unique_ptr<DeviceClock> make_clock() = 0;
  virtual ProfileObserver* profile_observer() { return nullptr; }
  virtual std::vector<BackendNote> take_notes() { return {}; }
};

/// Throws Error (kSystem) that says what is missing: driver, device.
std::vector<DeviceInfo> visible_devices();
/// Throws Error (kSystem).
std::unique_ptr<Device> open_device(int index);

}  // namespace mtf::cuda
