// A GPU through the CUDA runtime, which is linked statically and loads the driver when it is first used.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/nvidia/compiled_fusions.h"
#include "engine/backend/cuda/nvidia/cublaslt.h"
#include "engine/backend/cuda/nvidia/cudnn.h"
#include "engine/backend/cuda/nvidia/errors.h"
#include "engine/backend/cuda/nvidia/kernel_image.h"
#include "engine/backend/cuda/nvidia/profiling.h"

namespace mtf::cuda {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

int device_count() {
  check_driver();
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for GPUs");
  return count;
}

DeviceInfo describe(int index, int count) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "asking for a GPU's properties");
  DeviceInfo info{.index = index,
                  .name = properties.name,
                  .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                  .pci = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID,
                                     properties.pciDeviceID),
                  .major = properties.major,
                  .minor = properties.minor,
                  .multiprocessors = properties.multiProcessorCount,
                  .peers = {}};
  for (int other = 0; other < count; ++other) {
    int reached = other == index;
    if (other != index)
      check(cudaDeviceCanAccessPeer(&reached, index, other), "asking which GPUs reach each other");
    info.peers.push_back(reached != 0);
  }
  return info;
}

/// Estimates; the context and what is loaded with it are in the free bytes that CUDA reports. Kernels are loaded
/// when they first run (lazy loading, the default since CUDA 12.2): those of cuBLASLt that a model uses and
/// those of this backend, besides the graphs of the recorded steps. Not measured on hardware yet.
constexpr int64_t kDriverBytes = int64_t{256} << 20;
/// NCCL allocates about 12 MiB for each connection and channel, on up to 32 channels (figures of NCCL's issue
/// 1685, H100): two connections for rings and trees, and one for each process to which messages are sent.
constexpr int64_t kNcclConnectionBytes = int64_t{32} * (12 << 20);
/// Host memory of the driver and of cuBLASLt, an estimate that was not measured yet.
constexpr int64_t kHostBytes = 300'000'000;
/// cudaMalloc takes memory from the driver in blocks of 2 MiB.
constexpr int64_t kBlockBytes = 2 << 20;

/// Formats bytes as "12.34 GiB".
std::string gibibytes(size_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

/// A GPU as the device of the calling thread. CUDA's calls in a thread that has chosen none are for GPU 0, and
/// make a context there.
class ThreadDevice {
 public:
  explicit ThreadDevice(int index) : index_(index) {}
  void use() const {
    const cudaError_t code = cudaSetDevice(index_);
    if (code == cudaErrorMemoryAllocation) {
      throw Error(ErrorKind::kMemory,
                  fmt::format("GPU {} has no memory left for another program: others hold it", index_),
                  "`nvidia-smi` shows them");
    }
    if (code != cudaSuccess) throw cuda_error(code, fmt::format("opening GPU {}", index_));
  }
  /// The same for destructors, which ignore errors: what a GPU that has failed held is gone.
  void try_to_use() const { ignore(cudaSetDevice(index_)); }

 private:
  int index_;
};

class Pinned final : public PinnedMemory {
 public:
  Pinned(ThreadDevice device, int64_t bytes) : device_(device) {
    device_.use();
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    check(cudaHostAlloc(&memory_, size, cudaHostAllocPortable),
          fmt::format("getting {} of pinned host memory", gibibytes(size)));
  }
  ~Pinned() override {
    device_.try_to_use();
    ignore(cudaFreeHost(memory_));
  }
  std::byte* data() override { return static_cast<std::byte*>(memory_); }

 private:
  ThreadDevice device_;
  void* memory_ = nullptr;
};

class RuntimeEvent final : public Event {
 public:
  explicit RuntimeEvent(ThreadDevice device) : device_(device) {
    device_.use();
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
  }
  ~RuntimeEvent() override {
    device_.try_to_use();
    ignore(cudaEventDestroy(event_));
  }
  void record(Stream stream) override {
    device_.use();
    check(cudaEventRecord(event_, native(stream)), "recording an event");
  }
  void wait_in(Stream stream) override {
    device_.use();
    check(cudaStreamWaitEvent(native(stream), event_, 0), "waiting for an event in a stream");
  }
  void wait() override {
    device_.use();
    check(cudaEventSynchronize(event_), "waiting for an event");
  }

 private:
  ThreadDevice device_;
  cudaEvent_t event_ = nullptr;
};

/// A recording as a CUDA graph.
class Graph final : public Recording {
 public:
  Graph(Device& device, cudaGraph_t graph) : device_(device) {
    cudaError_t code = cudaGraphGetNodes(graph, nullptr, &nodes_);
    if (code == cudaSuccess) code = cudaGraphInstantiate(&graph_, graph, 0);
    ignore(cudaGraphDestroy(graph));
    check(code, "making a graph of what was recorded");
    const cudaError_t uploaded = cudaGraphUpload(graph_, native(device.compute()));
    if (uploaded != cudaSuccess) ignore(cudaGraphExecDestroy(graph_));  // this destructor will not run
    check(uploaded, "sending a graph to the GPU");
  }
  ~Graph() override { ignore(cudaGraphExecDestroy(graph_)); }
  void replay() override { check(cudaGraphLaunch(graph_, native(device_.compute())), "starting a graph"); }
  int64_t nodes() const override { return static_cast<int64_t>(nodes_); }

 private:
  Device& device_;
  size_t nodes_ = 0;
  cudaGraphExec_t graph_ = nullptr;
};

struct DestroyStream {
  void operator()(cudaStream_t stream) const { ignore(cudaStreamDestroy(stream)); }
};
using OwnedStream = std::unique_ptr<CUstream_st, DestroyStream>;

class RuntimeDevice final : public Device {
 public:
  explicit RuntimeDevice(DeviceInfo info) : info_(std::move(info)), thread_(info_.index) {
    use();
    check_kernels();
    compute_ = make_stream();
    matmuls_ = open_cublaslt(*this);
    try {
      fusions_ = make_compiled_fusions(*this);
    } catch (const Error& error) {
      note({true, fmt::format("elementwise operations run one by one: {}", error.what())});
    }
  }
  ~RuntimeDevice() override { thread_.try_to_use(); }  // streams and libraries are destroyed next

  const DeviceInfo& info() const override { return info_; }
  DeviceMemoryState memory_state() override {
    use();
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for the memory of the GPU");
    return {.total = static_cast<int64_t>(total),
            .free = static_cast<int64_t>(free),
            .driver = kDriverBytes,
            .collectives = 2 * kNcclConnectionBytes,
            .collectives_per_peer = kNcclConnectionBytes,
            .host = kHostBytes,
            .block = kBlockBytes};
  }

  std::byte* allocate(int64_t bytes) override {
    use();
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, size);
    if (code == cudaErrorMemoryAllocation) throw out_of_memory(size);
    check(code, "getting memory of the GPU");
    const cudaError_t cleared = cudaMemsetAsync(memory, 0, size, native(compute_));
    if (cleared != cudaSuccess) ignore(cudaFree(memory));
    check(cleared, "clearing memory of the GPU");
    wait(compute_);  // any stream may use the memory first
    return static_cast<std::byte*>(memory);
  }
  void free(std::byte* memory) override {
    thread_.try_to_use();
    ignore(cudaFree(memory));
  }
  std::unique_ptr<PinnedMemory> allocate_pinned(int64_t bytes) override {
    return std::make_unique<Pinned>(thread_, bytes);
  }
  std::byte* allocate_mapped(int64_t bytes) override {
    use();
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* memory = nullptr;
    // With unified addressing, which every 64-bit system has, the host's address is the GPU's.
    check(cudaHostAlloc(&memory, size, cudaHostAllocMapped | cudaHostAllocPortable),
          fmt::format("getting {} of pinned host memory", gibibytes(size)));
    std::memset(memory, 0, size);
    return static_cast<std::byte*>(memory);
  }
  void free_mapped(std::byte* memory) override {
    thread_.try_to_use();
    ignore(cudaFreeHost(memory));
  }

  Stream compute() override {
    use();
    return compute_;
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<RuntimeEvent>(thread_); }
  Stream make_stream() override {
    use();
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    streams_.emplace_back(stream);
    return {stream};
  }

  void copy(Stream stream, std::byte* to, const std::byte* from, int64_t bytes) override {
    if (bytes == 0) return;
    use();
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, native(stream)),
          "copying");
  }
  void zero(Stream stream, std::byte* to, int64_t bytes) override {
    if (bytes == 0) return;
    use();
    check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), native(stream)), "clearing memory");
  }
  void wait(Stream stream) override {
    use();
    check(cudaStreamSynchronize(native(stream)), "waiting for the GPU");
  }

  /// The capture mode is relaxed: a library may allocate memory or load a kernel when it is first used, in
  /// this or another thread.
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    const cudaStream_t stream = native(compute());
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "beginning to record");
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      ignore(cudaStreamEndCapture(stream, &graph));
      if (graph != nullptr) ignore(cudaGraphDestroy(graph));
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "ending a recording");
    return std::make_unique<Graph>(*this, graph);
  }

  MatmulLibrary& matmuls() override { return *matmuls_; }
  AttentionLibrary* attention_library() override { return attention_.get(); }
  FusionKernels* fusions() override {
    if (fusions_) use();
    return fusions_.get();
  }
  std::unique_ptr<DeviceClock> make_clock() override { return make_runtime_clock(*this); }
  ProfileObserver* profile_observer() override { return &nvtx_observer(); }

 private:
  void load_attention_library() override {
    use();
    attention_ = open_cudnn(*this);
  }

  void use() const { thread_.use(); }

  void check_kernels() const {
    const cudaError_t code = find_kernel_image();
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
        code == cudaErrorUnsupportedPtxVersion) {
      throw Error(ErrorKind::kSystem,
                  fmt::format("GPU {} ({}) is {}, but the kernels of this build are for architectures {}",
                              info_.index, info_.name, info_.architecture(), MTF_CUDA_ARCHITECTURES),
                  "build with CMAKE_CUDA_ARCHITECTURES for this GPU, or use `devices: cpu`");
    }
    check(code, "loading the kernels");
  }

  Error out_of_memory(size_t wanted) const {
    cudaGetLastError();
    size_t free = 0, total = 0;
    ignore(cudaMemGetInfo(&free, &total));
    return {ErrorKind::kMemory,
            fmt::format("GPU {} ({}) has {} of {} free; {} are needed ({} bytes)", info_.index, info_.name,
                        gibibytes(free), gibibytes(total), gibibytes(wanted), wanted),
            "use smaller batches, `train.microbatches`, or split more dimensions; `nvidia-smi` lists other "
            "programs that hold memory"};
  }

  DeviceInfo info_;
  ThreadDevice thread_;
  std::vector<OwnedStream> streams_;
  Stream compute_;
  std::unique_ptr<MatmulLibrary> matmuls_;
  std::unique_ptr<AttentionLibrary> attention_;  ///< null if it is not wanted
  std::unique_ptr<FusionKernels> fusions_;       ///< null if there is no NVRTC
};

}  // namespace

std::vector<DeviceInfo> visible_devices() {
  const int count = device_count();
  std::vector<DeviceInfo> devices;
  for (int index = 0; index < count; ++index) devices.push_back(describe(index, count));
  return devices;
}

std::unique_ptr<Device> open_device(int index) {
  const int count = device_count();
  if (index < 0 || index >= count) {
    throw Error(ErrorKind::kSystem,
                fmt::format("there is no GPU {}: {} visible", index,
                            count == 1 ? "only GPU 0 is" : fmt::format("GPUs 0 to {} are", count - 1)),
                "`mtf-train --list-devices` lists them");
  }
  return std::make_unique<RuntimeDevice>(describe(index, count));
}

}  // namespace mtf::cuda
