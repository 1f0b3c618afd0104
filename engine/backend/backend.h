// Backend is one kind of device, with its memory and its kernels. The runtime knows devices only through this
// interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/block_copy.h"
#include "engine/backend/device_info.h"
#include "engine/backend/device_memory_state.h"
#include "engine/backend/joint_positions.h"
#include "engine/backend/kernel.h"
#include "engine/backend/transfers.h"
#include "engine/backend/tuning_record.h"
#include "engine/comm/collective.h"
#include "engine/core/profile.h"

namespace mtf {

/// A movement of data that belongs to no operation.
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

/// Memory of a device, aligned to 64 bytes and zeroed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() = 0;
};

/// Recorded work that a device can repeat without being given each part of it again.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Enqueues the recorded work.
  virtual void replay() = 0;
  /// The number of kernels, copies and other pieces of work that a replay enqueues.
  virtual int64_t nodes() const = 0;
};

/// How the runtime gives the work of a program to a device.
enum class Submission {
  kRecorded,  ///< it is recorded once and replayed
  kEager,     ///< each run enqueues it
  kAwaited,   ///< each run enqueues it and waits after each instruction, so that errors name the instruction
};

/// Measures when a device reaches marked points in its work.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  /// Enqueues a point. Must not be called while a recording is made.
  virtual void mark() = 0;
  /// Waits for the points enqueued since the last call and returns their times, in the units of
  /// Profile::now().
  virtual std::vector<int64_t> read() = 0;
};

/// Where a library of the device computes attention.
enum class AttentionLibraryUse {
  kWhereFaster,      ///< where measurements say that it is faster, and does not take much memory
  kWhereItComputes,  ///< wherever it computes the operation as it is defined
};

/// A message of the backend for the user.
struct BackendNote {
  bool is_warning = false;  ///< false: for the log only
  std::string text;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<DeviceMemory> allocate(int64_t bytes) = 0;
  /// Page-locked memory of the host that kernels read and write where it is. On the host itself: allocate().
  virtual std::unique_ptr<DeviceMemory> allocate_on_host(int64_t bytes) { return allocate(bytes); }
  /// Throws Error (kConfig) naming operation and dtype if there is no kernel.
  virtual std::unique_ptr<Kernel> prepare(const KernelContext& context) = 0;
  /// A kernel that computes the operation at several positions in one call. Null if the backend has none, or gains nothing by it.
  virtual std::unique_ptr<Kernel> prepare_joint(const KernelContext& /*context*/,
                                                const JointPositions& /*positions*/) {
    return nullptr;
  }
  virtual std::unique_ptr<Kernel> prepare(const Move& move) = 0;
  /// A collective among positions of this device.
  virtual std::unique_ptr<PreparedCollective> prepare(const Collective& collective) = 0;
  /// Called once by each thread that runs kernels.
  virtual void prepare_thread() {}
  /// The instruction set or architecture on which the bits of results depend: "avx512", "sm_90".
  virtual std::string instruction_set() const = 0;

  /// Null for the host.
  virtual const DeviceInfo* device_info() const { return nullptr; }
  /// True if kernels and collectives compute during the call, on memory that the host can access. Otherwise
  /// they have one task, which the call enqueues: the device runs it after everything that was enqueued
  /// before.
  virtual bool is_host() const = 0;
  /// Copies host memory to device memory, after what was enqueued. `from` may change once it returns.
  virtual void write(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  /// Waits for what was enqueued, then copies device memory to host memory.
  virtual void read(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  /// Copies memory of the device, after what was enqueued.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  /// Copies memory of the device in any order, after what was enqueued: no copy may read or write what another one writes.
  virtual void copy_blocks(std::span<const BlockCopy> copies) = 0;
  /// A transfer of `bytes` bytes to `to`. Null for the host, whose memory can be filled directly.
  virtual std::unique_ptr<BlockTransfer> make_block_transfer(std::byte* to, int64_t bytes) = 0;
  /// A transfer of `sources` to the host. On the host itself, HostCopy::begin() copies.
  virtual std::unique_ptr<HostCopy> make_host_copy(CopySources sources, CopyOrder order) = 0;
  /// A transfer between the memory of the device and memory that allocate_on_host() gave. On the host itself, begin() copies.
  virtual std::unique_ptr<MemoryTransfer> make_memory_transfer(std::vector<MemoryTransfer::Part> parts,
                                                               TransferDirection direction);
  /// Waits for what was enqueued. Throws Error (kSystem) when the device has failed.
  virtual void wait() {}
  virtual Submission submission() const { return Submission::kEager; }
  /// Records what `enqueue` enqueues, for replay(). Null if that cannot be recorded: take_notes() says why on a
  /// device, where nothing has been enqueued then; the host records nothing.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue) = 0;

  /// The allocated bytes of device memory; 0 for the host.
  virtual int64_t memory_bytes() const { return 0; }
  /// The memory of the device at this moment; nothing for the host, and for a GPU that is not here.
  virtual std::optional<DeviceMemoryState> memory_state() { return std::nullopt; }
  /// Sets the text on the plan of the memory that a failed allocation adds to its message.
  virtual void set_memory_plan(const std::string&) {}
  /// Null for the host, whose work is done when a call returns.
  virtual std::unique_ptr<DeviceClock> make_clock() { return nullptr; }
  /// The profiling tool for this kind of device if one is observing; may be null.
  virtual ProfileObserver* profile_observer() { return nullptr; }

  /// True if it generates kernels for fusions of elementwise operations (FusedElementwise).
  virtual bool fuses_elementwise() { return false; }
  /// Compiles everything that the kernels prepared so far need, all at once. Otherwise each kernel compiles
  /// its part when it first runs.
  virtual void compile() {}
  /// From now on chooses among algorithms by measuring them where that matters (GPUs: matrix products).
  /// `record` must outlive the backend's use.
  virtual void tune(TuningRecord& /*record*/) {}
  /// From now on prepares attention by a library of the device (cuDNN). False if the backend knows none. Throws Error
  /// (kSystem) if the library is missing.
  virtual bool use_attention_library(AttentionLibraryUse /*use*/) { return false; }
  /// The notes since the last call.
  virtual std::vector<BackendNote> take_notes() { return {}; }

  /// `bytes` bytes of device memory for the host to read: a pointer to them, or to a copy in `buffer`.
  const std::byte* on_host(const std::byte* data, int64_t bytes, std::vector<std::byte>& buffer);
};

/// The backend that runs on the processor's cores.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace mtf
