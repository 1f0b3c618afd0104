#include "engine/backend/cuda/nvidia/compiled_fusions.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/cuda/fusion/fusion_source.h"
#include "engine/backend/cuda/nvidia/errors.h"
#include "engine/backend/cuda/nvidia/nvrtc.h"
#include "engine/base/counted.h"

namespace mtf::cuda {
namespace {

class CompiledFusions final : public FusionKernels {
 public:
  explicit CompiledFusions(Device& device)
      : device_(device), compiler_(CUDART_VERSION / 1000, device.info().architecture()) {
    if (auto warning = release_warning(compiler_.release(), CUDART_VERSION))
      device_.note({true, *std::move(warning)});
  }
  ~CompiledFusions() override {
    for (cudaLibrary_t library : libraries_) ignore(cudaLibraryUnload(library));
  }

  std::string version() const override { return compiler_.version(); }

  int add(const Fusion& fusion, bool in_batches) override {
    const auto [found, is_new] =
        numbers_.emplace(std::pair(fusion_source(fusion), in_batches), static_cast<int>(numbers_.size()));
    if (is_new) waiting_.push_back({fmt::format("fusion_{}", found->second), found->first.first, in_batches});
    return found->second;
  }

  void compile() override {
    if (waiting_.empty()) return;
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<char> code = compiler_.compile(fusion_program(waiting_));
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "loading compiled kernels");
    libraries_.push_back(library);
    for (const FusionKernelSource& source : waiting_) {
      kernels_.emplace_back();
      check(cudaLibraryGetKernel(&kernels_.back(), library, source.name.c_str()),
            "looking for a compiled kernel");
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    device_.note({false, fmt::format("{} compiled {} of elementwise fusions in {:.2f} s", compiler_.version(),
                                     counted(std::ssize(waiting_), "kernel"), seconds.count())});
    waiting_.clear();
  }

  void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
              std::span<const std::byte> arguments) override {
    compile();
    if (shape.blocks == 0) return;
    void* parameters[] = {const_cast<std::byte*>(arguments.data()), &guard};
    check_launch(cudaLaunchKernel(reinterpret_cast<const void*>(kernels_.at(static_cast<size_t>(kernel))),
                                  dim3(grid_blocks(shape.blocks)), dim3(static_cast<unsigned>(shape.threads)),
                                  parameters, 0, static_cast<cudaStream_t>(stream.handle)));
  }

 private:
  Device& device_;
  KernelCompiler compiler_;
  std::map<std::pair<std::string, bool>, int> numbers_;  ///< by source, and true for batches
  std::vector<FusionKernelSource> waiting_;              ///< in order of their numbers
  std::vector<cudaLibrary_t> libraries_;
  std::vector<cudaKernel_t> kernels_;  ///< by number
};

}  // namespace

std::unique_ptr<FusionKernels> make_compiled_fusions(Device& device) {
  return std::make_unique<CompiledFusions>(device);
}

}  // namespace mtf::cuda
