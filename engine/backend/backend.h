// A kind of device: its memory and its kernels. The runtime knows devices only through this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/device_info.h"
#include "engine/backend/kernel.h"
#include "engine/comm/collective.h"
#include "engine/core/profile.h"

namespace mtf {

/// Movement of data that belongs to no operation.
struct Move {
  enum class Kind {
    kSlice,       ///< output = the part of `dimension` that begins at the output's begin
    kCopy,        ///< output = input
    kAccumulate,  ///< output = input in iteration 0, else output += input
    kPlace,       ///< entry i*count + iteration of `dimension` of the output = entry i of the input
  };
  Kind kind = Kind::kCopy;
  LocalTensor input;
  LocalTensor output;
  int dimension = -1;
  int64_t count = 1;
};

/// Memory of a device, aligned to 64 bytes, zeroed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() = 0;
};

/// Work that a device runs again and again without being told each part of it.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Enqueues it.
  virtual void replay() = 0;
};

/// Tells when a device gets to points in its work.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Enqueues a point. Not while a recording is made.
  virtual void mark() = 0;
  /// When the device came to the points since the last call, by Profile::now(): waits for them.
  virtual std::vector<int64_t> read() = 0;
};

/// What a device has to say to those who run it.
struct BackendNote {
  bool is_warning = false;  ///< else for the log alone
  std::string text;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<DeviceMemory> allocate(int64_t bytes) = 0;
  /// Throws Error (kConfig) that names operation and dtype when there is no kernel.
  virtual std::unique_ptr<Kernel> prepare(const KernelContext& context) = 0;
  virtual std::unique_ptr<Kernel> prepare(const Move& move) = 0;
  /// Among positions of this device.
  virtual std::unique_ptr<PreparedCollective> prepare(const Collective& collective) = 0;
  /// Called once by each thread that runs kernels.
  virtual void prepare_thread() {}
  /// Instruction set or architecture that the bits of results depend on: "avx512", "sm_90".
  virtual std::string instruction_set() const = 0;

  /// Null: the host.
  virtual const DeviceInfo* device_info() const { return nullptr; }
  /// Kernels and collectives compute when they are run, on memory that the host reads and writes. Else they
  /// have one task, which is enqueued: the device runs it after all that was enqueued before.
  virtual bool is_host() const = 0;
  /// Host memory to memory of the device: after what was enqueued; `from` may change afterwards.
  virtual void write(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  /// Memory of the device to host memory: waits for what was enqueued.
  virtual void read(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  /// Waits for what was enqueued. Throws Error (kSystem) when the device has failed.
  virtual void wait() {}
  /// What `enqueue` enqueues, for replay(). For devices.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue) = 0;

  /// Bytes of the device's memory that are allocated; 0: the host's.
  virtual int64_t memory_bytes() const { return 0; }
  /// Null: of the host, whose work is done when a call returns.
  virtual std::unique_ptr<DeviceClock> make_clock() { return nullptr; }
  /// A tool of this kind of device that looks on; null: none.
  virtual ProfileObserver* profile_observer() { return nullptr; }

  /// It makes kernels for fusions of elementwise operations (FusedElementwise).
  virtual bool fuses_elementwise() { return false; }
  /// Makes what the kernels prepared so far wait for, all at once; else each does when it first runs.
  virtual void compile() {}
  /// Since the last call.
  virtual std::vector<BackendNote> take_notes() { return {}; }

  /// `bytes` bytes of the device's memory for the host to read: they themselves, or a copy in `buffer`.
  const std::byte* on_host(const std::byte* data, int64_t bytes, std::vector<std::byte>& buffer);
};

/// The processor's cores.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace mtf
