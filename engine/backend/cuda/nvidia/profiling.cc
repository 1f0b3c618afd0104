#include "engine/backend/cuda/nvidia/profiling.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <vector>

#include "engine/backend/cuda/nvidia/errors.h"

namespace mtf::cuda {
namespace {

/// Differences between events are floats in milliseconds: exact enough within a step, but not since the start
/// of the process. The times of a step are therefore counted back from its last event, which the host has
/// waited for.
class RuntimeClock final : public DeviceClock {
 public:
  explicit RuntimeClock(Device& device) : device_(device) {}
  ~RuntimeClock() override {
    for (cudaEvent_t event : events_) ignore(cudaEventDestroy(event));
  }

  void mark() override {
    const Stream stream = device_.compute();
    if (marked_ == events_.size()) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreate(&event), "making an event");
      events_.push_back(event);
    }
    check(cudaEventRecord(events_[marked_++], static_cast<cudaStream_t>(stream.handle)),
          "recording an event");
  }

  std::vector<int64_t> read() override {
    std::vector<int64_t> times(marked_);
    if (marked_ == 0) return times;
    const cudaEvent_t last = events_[marked_ - 1];
    marked_ = 0;
    check(cudaEventSynchronize(last), "waiting for an event");
    const int64_t now = Profile::now();
    for (size_t i = 0; i < times.size(); ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events_[i], last), "asking for a time");
      times[i] = now - static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
    }
    return times;
  }

 private:
  Device& device_;
  std::vector<cudaEvent_t> events_;
  size_t marked_ = 0;
};

class NvtxObserver final : public ProfileObserver {
 public:
  void start() override { ignore(cudaProfilerStart()); }
  void stop() override { ignore(cudaProfilerStop()); }
  void begin(const ProfileLabel& label) override {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.category = static_cast<uint32_t>(label.category) + 1;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = label.name.c_str();
    nvtxDomainRangePushEx(domain_, &attributes);
  }
  void end() override { nvtxDomainRangePop(domain_); }

 private:
  const nvtxDomainHandle_t domain_ = nvtxDomainCreateA("mtf");
};

}  // namespace

std::unique_ptr<DeviceClock> make_runtime_clock(Device& device) {
  return std::make_unique<RuntimeClock>(device);
}

ProfileObserver& nvtx_observer() {
  static NvtxObserver observer;
  return observer;
}

}  // namespace mtf::cuda
