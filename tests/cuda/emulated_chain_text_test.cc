// The text of generated kernels, compiled by the host's compiler and run by the emulator, gives the bits of
// the operations one by one.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unordered_map>

#include "engine/backend/cuda/chains/chain_source.h"
#include "engine/backend/cuda/cuda_backend.h"
#include "engine/backend/cuda/launch.h"
#include "tests/cuda/run_on.h"
#include "tests/support/random_chains.h"

namespace mtf::cuda {
namespace {

class HostCompiledChains final : public ChainKernels {
 public:
  int add(const Chain& chain) override {
    const auto [found, is_new] = numbers_.emplace(chain_source(chain), static_cast<int>(numbers_.size()));
    if (is_new) waiting_.emplace_back("chain_" + std::to_string(found->second), found->first);
    return found->second;
  }

  void compile() override {
    if (waiting_.empty()) return;
    const std::string stem =
        ::testing::TempDir() + "chains_" + std::to_string(getpid()) + "_" + std::to_string(numbers_.size());
    std::ofstream(stem + ".cc") << chain_program(waiting_);
    const std::string command = "c++ -std=c++20 -O1 -fPIC -shared -Wall -Wextra -Werror -I" MTF_SOURCE_DIR
                                " -o " +
                                stem + ".so " + stem + ".cc";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    void* library = dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    for (const auto& [name, source] : waiting_)
      kernels_.push_back(reinterpret_cast<Entry*>(dlsym(library, name.c_str())));
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
  using Entry = void(const void* chain, const Block* block);
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::pair<std::string, std::string>> waiting_;
  std::vector<Entry*> kernels_;
};

/// The emulated device with other kernels for chains.
class DeviceWithText final : public Device {
 public:
  explicit DeviceWithText(HostCompiledChains& chains) : chains_(chains) {}
  const DeviceInfo& info() const override { return device_->info(); }
  std::byte* allocate(int64_t bytes) override { return device_->allocate(bytes); }
  void free(std::byte* memory) override { device_->free(memory); }
  std::unique_ptr<PinnedMemory> allocate_pinned(int64_t bytes) override {
    return device_->allocate_pinned(bytes);
  }
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
  ChainKernels* chains() override { return &chains_; }
  std::unique_ptr<DeviceClock> make_clock() override { return device_->make_clock(); }

 private:
  const std::unique_ptr<Device> device_ = open_device(0);
  HostCompiledChains& chains_;
};

TEST(ChainText, GivesTheBitsOfSeparateInstructions) {
  if (std::system("c++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  HostCompiledChains chains;
  CudaBackend backend(std::make_unique<DeviceWithText>(chains));
  const Shape shapes[] = {{{"a", 4}, {"b", 6}, {"c", 16}}, {{"a", 4}, {"b", 5}}, {{"a", 74}}};
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const auto random = mtf::testing::random_chains(1000 + seed, shapes[seed], 150);
    const Layouts layouts = mtf::testing::layouts(seed == 1 ? "p:2" : "p:1", seed == 1 ? "a:p" : "");
    const Program plain = partition(*random.graph, layouts),
                  fused = partition(*random.graph, layouts, {.fuse_chains = true});
    SCOPED_TRACE(fused.to_string());
    mtf::testing::expect_same_bits(mtf::testing::run_on(backend, fused, random.feeds),
                                   mtf::testing::run_on(backend, plain, random.feeds));
    if (HasFailure()) return;
  }
  EXPECT_GT(chains.kernels(), 40u);
}

}  // namespace
}  // namespace mtf::cuda
