#include "tests/support/test_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>

#include "engine/backend/device_plugin.h"
#include "tests/support/gpu_gate.h"

namespace mtf::testing {

namespace {

/// The value of MTF_TEST_DEVICES: "cpu", "cuda" or "emulator".
std::string_view tested_devices() {
  const char* value = std::getenv("MTF_TEST_DEVICES");
  return value == nullptr ? "cpu" : value;
}

/// Looks for the GPU before the first test.
class NeedsGpu final : public ::testing::Environment {
 public:
  void SetUp() override {
    if (tested_devices() == "cuda") skip_without_gpu([] { device_plugin().devices(); });
  }
};
[[maybe_unused]] const auto* const needs_gpu = ::testing::AddGlobalTestEnvironment(new NeedsGpu);

std::shared_ptr<Backend> shared_device(int process) {
  // They are not destroyed because they use other static objects.
  static auto* const devices = new std::map<int, std::shared_ptr<Backend>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Backend>& device = (*devices)[process];
  if (!device) {
    if (tested_devices() == "emulator") setenv("MTF_CUDA_PLUGIN", MTF_CUDA_EMULATOR, 1);
    device = device_plugin().make_backend(0);
  }
  return device;
}

}  // namespace

std::shared_ptr<Backend> test_backend(int process) {
  return tested_devices() == "cpu" ? make_cpu_backend() : shared_device(process);
}

void run_kernel(Backend& backend, const Kernel& kernel, const KernelContext& context,
                std::span<const Slice> inputs, std::span<const Slice> outputs, uint64_t step,
                int64_t iteration) {
  std::deque<std::unique_ptr<DeviceMemory>> memory;
  const auto on_device = [&](std::span<const Slice> slices, const std::vector<LocalTensor>& tensors) {
    std::vector<Slice> result;
    for (size_t i = 0; i < slices.size(); ++i) {
      const auto bytes = bytes_of(tensors[i].local, tensors[i].dtype);
      memory.push_back(backend.allocate(bytes));
      backend.write(memory.back()->data(), slices[i].data, bytes);
      result.push_back({memory.back()->data(), slices[i].begin});
    }
    return result;
  };
  const std::vector<Slice> from = on_device(inputs, context.inputs), to = on_device(outputs, context.outputs);
  const auto scratch = backend.allocate(static_cast<int64_t>(kernel.scratch_bytes()));
  const auto step_word = backend.allocate(sizeof step);
  backend.write(step_word->data(), reinterpret_cast<const std::byte*>(&step), sizeof step);
  kernel.run(
      KernelCall{from, to, scratch->data(), reinterpret_cast<const uint64_t*>(step_word->data()), iteration},
      0, kernel.tasks());
  for (size_t i = 0; i < outputs.size(); ++i) {
    backend.read(outputs[i].data, to[i].data, bytes_of(context.outputs[i].local, context.outputs[i].dtype));
  }
}

}  // namespace mtf::testing
