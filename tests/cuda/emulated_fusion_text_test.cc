// The text of generated kernels, compiled by the host's compiler and run by the emulator, gives the same bits
// as the single operations.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "engine/backend/cuda/cuda_backend.h"
#include "engine/backend/cuda/device/fusion_kernels.h"
#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/backend/cuda/fusion/fusion_source.h"
#include "engine/ops/binary.h"
#include "engine/ops/unary.h"
#include "tests/cuda/run_on.h"
#include "tests/support/random_fusions.h"

namespace mtf::cuda {
namespace {

class HostCompiledFusions final : public FusionKernels {
 public:
  int add(const Fusion& fusion, bool in_batches) override {
    const auto [found, is_new] =
        numbers_.emplace(std::pair(fusion_source(fusion), in_batches), static_cast<int>(numbers_.size()));
    if (is_new)
      waiting_.push_back({"fusion_" + std::to_string(found->second), found->first.first, in_batches});
    return found->second;
  }

  void compile() override {
    if (waiting_.empty()) return;
    const std::string stem =
        ::testing::TempDir() + "fusions_" + std::to_string(getpid()) + "_" + std::to_string(numbers_.size());
    std::ofstream(stem + ".cc") << fusion_program(waiting_);
    const std::string command = "c++ -std=c++20 -O1 -fPIC -shared -Wall -Wextra -Werror -I" MTF_SOURCE_DIR
                                " -o " +
                                stem + ".so " + stem + ".cc";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    void* library = dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    for (const FusionKernelSource& source : waiting_)
      kernels_.push_back(reinterpret_cast<Entry*>(dlsym(library, source.name.c_str())));
    waiting_.clear();
    std::remove((stem + ".cc").c_str());
    std::remove((stem + ".so").c_str());
  }

  void launch(Stream stream, const LaunchShape& shape, const bool* guard, int kernel,
              std::span<const std::byte> arguments) override {
    ASSERT_LT(static_cast<size_t>(kernel), kernels_.size());
    emulator::launch(stream, shape, 256, guard,
                     [entry = kernels_[static_cast<size_t>(kernel)],
                      told = std::vector<std::byte>(arguments.begin(), arguments.end())](const Block& block) {
                       entry(told.data(), &block);
                     });
  }

  size_t kernels() const { return kernels_.size(); }

 private:
  using Entry = void(const void* fusion, const Block* block);
  std::map<std::pair<std::string, bool>, int> numbers_;
  std::vector<FusionKernelSource> waiting_;
  std::vector<Entry*> kernels_;
};

/// The emulated device with different kernels for fusions.
class DeviceWithText final : public Device {
 public:
  explicit DeviceWithText(HostCompiledFusions& fusions) : fusions_(fusions) {}
  const DeviceInfo& info() const override { return device_->info(); }
  DeviceMemoryState memory_state() override { return device_->memory_state(); }
  std::byte* allocate(int64_t bytes) override { return device_->allocate(bytes); }
  void free(std::byte* memory) override { device_->free(memory); }
  std::unique_ptr<PinnedMemory> allocate_pinned(int64_t bytes) override {
    return device_->allocate_pinned(bytes);
  }
  std::byte* allocate_mapped(int64_t bytes) override { return device_->allocate_mapped(bytes); }
  void free_mapped(std::byte* memory) override { device_->free_mapped(memory); }
  Stream compute() override { return device_->compute(); }
  std::unique_ptr<Event> make_event() override { return device_->make_event(); }
  Stream make_stream() override { return device_->make_stream(); }
  void copy(Stream stream, std::byte* to, const std::byte* from, int64_t bytes) override {
    device_->copy(stream, to, from, bytes);
  }
  void zero(Stream stream, std::byte* to, int64_t bytes) override { device_->zero(stream, to, bytes); }
  void wait(Stream stream) override { device_->wait(stream); }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    return device_->record(enqueue);
  }
  MatmulLibrary& matmuls() override { return device_->matmuls(); }
  void load_attention_library() override {
    device_->use_attention_library(AttentionLibraryUse::kWhereItComputes);
  }
  AttentionLibrary* attention_library() override { return device_->attention_library(); }
  FusionKernels* fusions() override { return &fusions_; }
  std::unique_ptr<DeviceClock> make_clock() override { return device_->make_clock(); }

 private:
  const std::unique_ptr<Device> device_ = open_device(0);
  HostCompiledFusions& fusions_;
};

TEST(FusionText, GivesTheBitsOfSeparateInstructions) {
  if (std::system("c++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  HostCompiledFusions fusions;
  CudaBackend backend(std::make_unique<DeviceWithText>(fusions));
  const Shape shapes[] = {{{"a", 4}, {"b", 6}, {"c", 16}}, {{"a", 4}, {"b", 5}}, {{"a", 74}}};
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const auto random = mtf::testing::random_fusions(1000 + seed, shapes[seed], 150);
    const Layouts layouts = mtf::testing::layouts(seed == 1 ? "p:2" : "p:1", seed == 1 ? "a:p" : "");
    const Program plain = partition(*random.graph, layouts),
                  fused = partition(*random.graph, layouts, {.fuse_elementwise = true});
    SCOPED_TRACE(fused.to_string());
    mtf::testing::expect_same_bits(mtf::testing::run_on(backend, fused, random.feeds),
                                   mtf::testing::run_on(backend, plain, random.feeds));
    if (HasFailure()) return;
  }
  EXPECT_GT(fusions.kernels(), 40u);
}

TEST(FusionText, GivesTheBitsOfSeparateInstructionsInBatches) {
  if (std::system("c++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  HostCompiledFusions fusions;
  CudaBackend backend(std::make_unique<DeviceWithText>(fusions));
  Graph graph;
  const auto phase = graph.phase(Phase::kUpdate);
  std::map<std::string, mtf::testing::Values> feeds;
  const auto input = [&](const std::string& name, const Shape& shape) {
    feeds[name] = mtf::testing::random_normal_values(shape.size(), static_cast<uint32_t>(feeds.size()));
    return graph.input(name, shape);
  };
  const Tensor rate = input("rate", {});
  for (int i = 0; i < 50; ++i) {  // more than fit into one launch
    const Shape shape{{"a", 1 + i % 3}, {"b", 1 + i * i}};
    const std::string name = std::to_string(i);
    const Tensor x = input("x" + name, shape), y = input("y" + name, {shape[0]});
    graph.set_output(name, add(scalar_multiply(tanh(x), i), multiply(y, rate), shape));
  }
  const Program plain = partition(graph, Layouts::single()),
                fused =
                    partition(graph, Layouts::single(), {.fuse_elementwise = true, .group_variables = true});
  EXPECT_LT(fused.instructions.size(), 10u) << fused.to_string();
  mtf::testing::expect_same_bits(mtf::testing::run_on(backend, fused, feeds),
                                 mtf::testing::run_on(backend, plain, feeds));
}

}  // namespace
}  // namespace mtf::cuda
