// NCCL in its nonblocking mode: each call is polled until it has ended, so that a process that is lost
// meanwhile is noticed. Builds without nccl.h have no collectives between GPUs.
#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/base/error.h"

#if !__has_include(<nccl.h>)

namespace mtf::cuda {

std::string collectives_version() {
  throw Error(ErrorKind::kSystem, "this build has no NCCL: there was no nccl.h",
              "install NCCL and build again");
}

std::unique_ptr<DeviceCollectives> open_collectives(Device&, Communicator&, const CommunicatorTimeouts&) {
  collectives_version();
  return nullptr;
}

}  // namespace mtf::cuda

#else

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/backend/cuda/nvidia/shared_library.h"
#include "engine/base/check.h"

namespace mtf::cuda {
namespace {

struct Functions {
  const SharedLibrary library{"libnccl.so.2", "nccl", CUDART_VERSION / 1000};

  /// Throws Error if a call has failed. A call in progress may still fail later.
  void check(ncclResult_t result, std::string_view doing) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* details = last_error(nullptr);
    throw Error(result == ncclRemoteError ? ErrorKind::kPeerLost : ErrorKind::kSystem,
                fmt::format("NCCL, {}: {}{}{}", doing, error_text(result), details && *details ? ": " : "",
                            details ? details : ""),
                "NCCL_DEBUG=INFO tells more; `cluster.collectives: gloo` does without NCCL");
  }

  LibraryFunction<decltype(ncclGetVersion)> version{library, "ncclGetVersion"};
  LibraryFunction<decltype(ncclGetErrorString)> error_text{library, "ncclGetErrorString"};
  LibraryFunction<decltype(ncclGetLastError)> last_error{library, "ncclGetLastError"};
  LibraryFunction<decltype(ncclGetUniqueId)> make_id{library, "ncclGetUniqueId"};
  LibraryFunction<decltype(ncclCommInitRankConfig)> create{library, "ncclCommInitRankConfig"};
  LibraryFunction<decltype(ncclCommSplit)> split{library, "ncclCommSplit"};
  LibraryFunction<decltype(ncclCommGetAsyncError)> state{library, "ncclCommGetAsyncError"};
  LibraryFunction<decltype(ncclCommFinalize)> finalize{library, "ncclCommFinalize"};
  LibraryFunction<decltype(ncclCommDestroy)> destroy{library, "ncclCommDestroy"};
  LibraryFunction<decltype(ncclCommAbort)> abort{library, "ncclCommAbort"};
  LibraryFunction<decltype(ncclGroupStart)> begin_group{library, "ncclGroupStart"};
  LibraryFunction<decltype(ncclGroupEnd)> end_group{library, "ncclGroupEnd"};
  LibraryFunction<decltype(ncclAllReduce)> all_reduce{library, "ncclAllReduce"};
  LibraryFunction<decltype(ncclReduceScatter)> reduce_scatter{library, "ncclReduceScatter"};
  LibraryFunction<decltype(ncclAllGather)> all_gather{library, "ncclAllGather"};
  LibraryFunction<decltype(ncclSend)> send{library, "ncclSend"};
  LibraryFunction<decltype(ncclRecv)> receive{library, "ncclRecv"};
};

/// Throws Error (kSystem) if NCCL is missing.
const Functions& nccl() {
  static const Functions functions;
  return functions;
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    default:
      MTF_CHECK(false, "sums of {}", short_name(dtype));
  }
}

ncclConfig_t nonblocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

class NcclCollectives final : public DeviceCollectives {
 public:
  /// The group of all processes of `host`.
  NcclCollectives(Device& device, Communicator& host, const CommunicatorTimeouts& timeouts)
      : host_(host), timeouts_(timeouts) {
    try {
      connect(device);
    } catch (...) {
      abort();  // NCCL's threads would go on
      throw;
    }
  }
  ~NcclCollectives() override {
    if (is_aborted_) return;
    try {
      call("ending", [&](ncclComm_t handle) { return nccl().finalize(handle); });
      await("ending", timeouts_.collective);
      nccl().destroy(handle_);
    } catch (const Error&) {
      abort();
    }
  }

  std::unique_ptr<DeviceCollectives> split(int color, int key) override {
    constexpr std::string_view kDoing = "connecting a group of GPUs";
    ncclConfig_t config = nonblocking();
    ncclComm_t& made = made_.emplace_back(nullptr);
    unfinished_ = &made;
    try {
      call(kDoing, [&](ncclComm_t handle) { return nccl().split(handle, color, key, &made, &config); });
      await(kDoing, timeouts_.connect);  // before that, `made` is not valid
    } catch (...) {
      abort();
      throw;
    }
    unfinished_ = nullptr;
    auto group = std::unique_ptr<NcclCollectives>(new NcclCollectives(made, host_, timeouts_));
    try {
      group->await(kDoing, timeouts_.connect);
    } catch (...) {
      group->abort();
      throw;
    }
    return group;
  }

  void run(Stream stream, const std::function<void()>& calls) override {
    constexpr std::string_view kDoing = "starting a collective";
    call(kDoing, [&](ncclComm_t) {
      stream_ = static_cast<cudaStream_t>(stream.handle);
      failed_ = nccl().begin_group();
      if (failed_ != ncclSuccess) return failed_;
      calls();
      const ncclResult_t ended = nccl().end_group();
      return failed_ == ncclSuccess ? ended : failed_;
    });
    await(kDoing, timeouts_.collective);
  }

  void all_reduce(const std::byte* in, std::byte* out, int64_t count, DType dtype) override {
    note(nccl().all_reduce(in, out, static_cast<size_t>(count), type_of(dtype), ncclSum, handle_, stream_));
  }
  void reduce_scatter(const std::byte* in, std::byte* out, int64_t count, DType dtype) override {
    note(nccl().reduce_scatter(in, out, static_cast<size_t>(count), type_of(dtype), ncclSum, handle_,
                               stream_));
  }
  void all_gather(const std::byte* in, std::byte* out, int64_t bytes) override {
    note(nccl().all_gather(in, out, static_cast<size_t>(bytes), ncclUint8, handle_, stream_));
  }
  void send(const std::byte* data, int64_t bytes, int peer) override {
    note(nccl().send(data, static_cast<size_t>(bytes), ncclUint8, peer, handle_, stream_));
  }
  void receive(std::byte* data, int64_t bytes, int peer) override {
    note(nccl().receive(data, static_cast<size_t>(bytes), ncclUint8, peer, handle_, stream_));
  }

  void check() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);  // does not wait for a call that hangs
    if (lock && !is_aborted_) state("a collective");
  }

  /// A call in progress gets some time to end; then the lock is free again. NCCL may wait in abort until the
  /// graphs with its kernels are destroyed, and the thread that has to destroy them must first get an error
  /// from here.
  void abort() noexcept override {
    constexpr std::chrono::seconds kPatience(1);
    if (is_aborted_.exchange(true)) return;
    if (mutex_.try_lock_for(kPatience)) mutex_.unlock();
    if (handle_ != nullptr) nccl().abort(handle_);
    ncclComm_t* const unfinished = unfinished_;
    if (unfinished != nullptr && *unfinished != nullptr) nccl().abort(*unfinished);
  }

 private:
  NcclCollectives(ncclComm_t handle, Communicator& host, const CommunicatorTimeouts& timeouts)
      : host_(host), timeouts_(timeouts), handle_(handle) {}

  void connect(Device& device) {
    constexpr std::string_view kDoing = "connecting the GPUs";
    ncclUniqueId id{};
    if (host_.process() == 0) nccl().check(nccl().make_id(&id), "starting");
    const std::string bytes = broadcast(host_, {id.internal, sizeof id.internal}, "NCCL's address");
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    device.compute();  // makes it the thread's device
    ncclConfig_t config = nonblocking();
    nccl().check(nccl().create(&handle_, host_.processes(), id, host_.process(), &config), kDoing);
    await(kDoing, timeouts_.connect);
  }

  template <class Call>
  void call(std::string_view doing, const Call& call) {
    const std::lock_guard lock(mutex_);
    throw_if_aborted(doing);
    nccl().check(call(handle_), doing);
  }
  void throw_if_aborted(std::string_view doing) const {
    if (is_aborted_) throw Error(ErrorKind::kPeerLost, fmt::format("NCCL, {}: it was ended", doing));
  }
  ncclResult_t state(std::string_view doing) const {
    ncclResult_t state = ncclSuccess;
    nccl().check(nccl().state(handle_, &state), doing);
    nccl().check(state, doing);
    return state;
  }
  void note(ncclResult_t result) {
    if (failed_ == ncclSuccess && result != ncclInProgress) failed_ = result;
  }

  /// Waits until the last call has ended.
  void await(std::string_view doing, std::chrono::milliseconds timeout) {
    constexpr int kSpins = 2000;
    constexpr std::chrono::microseconds kPause(100);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (int turn = 0;; ++turn) {
      {
        const std::lock_guard lock(mutex_);
        throw_if_aborted(doing);
        if (state(doing) == ncclSuccess) return;
      }
      if (turn < kSpins) {
        std::this_thread::yield();
        continue;
      }
      host_.check();
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(ErrorKind::kPeerLost, fmt::format("NCCL, {}: not within {:g} s", doing,
                                                      std::chrono::duration<double>(timeout).count()));
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  Communicator& host_;
  const CommunicatorTimeouts timeouts_;
  std::timed_mutex mutex_;  ///< guards calls
  std::atomic<bool> is_aborted_ = false;
  ncclComm_t handle_ = nullptr;
  /// Where NCCL's threads write the handles of groups that are split off, after an error of this process, too.
  std::deque<ncclComm_t> made_;
  std::atomic<ncclComm_t*> unfinished_ = nullptr;  ///< of made_, until its split has ended
  // State of run().
  cudaStream_t stream_ = nullptr;
  ncclResult_t failed_ = ncclSuccess;
};

}  // namespace

std::string collectives_version() {
  int version = 0;
  nccl().check(nccl().version(&version), "asking for its version");
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<DeviceCollectives> open_collectives(Device& device, Communicator& host,
                                                    const CommunicatorTimeouts& timeouts) {
  return std::make_unique<NcclCollectives>(device, host, timeouts);
}

}  // namespace mtf::cuda

#endif
