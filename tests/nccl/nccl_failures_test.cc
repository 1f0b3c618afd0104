// A start of NCCL that fails leaves no group behind, whose threads would go on. The library is a stand-in.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "engine/backend/cuda/collectives/device_collectives.h"
#include "tests/nccl/fake_nccl.h"
#include "tests/support/failure.h"

namespace mtf::cuda {
namespace {

using ::testing::HasSubstr;

/// As much of a device as NCCL is given.
class NoDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  DeviceMemoryState memory_state() override { return {}; }
  std::byte* allocate(int64_t) override { return nullptr; }
  void free(std::byte*) override {}
  std::unique_ptr<PinnedMemory> allocate_pinned(int64_t) override { return nullptr; }
  std::byte* allocate_mapped(int64_t) override { return nullptr; }
  void free_mapped(std::byte*) override {}
  Stream compute() override { return {}; }
  std::unique_ptr<Event> make_event() override { return nullptr; }
  Stream make_stream() override { return {}; }
  void copy(Stream, std::byte*, const std::byte*, int64_t) override {}
  void zero(Stream, std::byte*, int64_t) override {}
  void wait(Stream) override {}
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  MatmulLibrary& matmuls() override { std::abort(); }
  void load_attention_library() override { std::abort(); }
  AttentionLibrary* attention_library() override { return nullptr; }
  FusionKernels* fusions() override { return nullptr; }
  std::unique_ptr<DeviceClock> make_clock() override { return nullptr; }

 private:
  DeviceInfo info_;
};

class NcclFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path folder =
        std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib" / "fake_nccl";
    setenv("MTF_CUDA_LIBRARY_PATH", folder.c_str(), 1);
    void* library = dlopen((folder / "libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    control_ = reinterpret_cast<mtf::testing::FakeNccl* (*)()>(dlsym(library, "fake_nccl"))();
    alive_ = reinterpret_cast<int (*)()>(dlsym(library, "fake_nccl_alive"));
    *control_ = {};
  }
  std::unique_ptr<DeviceCollectives> open() { return open_collectives(device_, host_, kTimeouts); }
  int alive() const { return alive_(); }

  static constexpr CommunicatorTimeouts kTimeouts{.connect = std::chrono::milliseconds(300),
                                                  .collective = std::chrono::milliseconds(300)};
  NoDevice device_;
  InProcessCommunicator host_;
  mtf::testing::FakeNccl* control_ = nullptr;
  int (*alive_)() = nullptr;
};

TEST_F(NcclFailures, WithoutOneGroupsEndWithTheirObjects) {
  {
    const auto world = open();
    const auto part = world->split(0, 0);
    EXPECT_EQ(alive(), 2);
  }
  EXPECT_EQ(alive(), 0);
}

TEST_F(NcclFailures, AStartThatHangsIsAborted) {
  control_->start_hangs = true;
  EXPECT_THAT(failure([&] { open(); }, ErrorKind::kPeerLost),
              HasSubstr("connecting the GPUs: not within 0.3 s"));
  EXPECT_EQ(alive(), 0);
}

TEST_F(NcclFailures, ASplitThatHangsIsAbortedWithWhatItLeaves) {
  const auto world = open();
  control_->split_hangs = true;
  EXPECT_THAT(failure([&] { world->split(0, 0); }, ErrorKind::kPeerLost),
              HasSubstr("connecting a group of GPUs: not within 0.3 s"));
  EXPECT_EQ(alive(), 0);
  EXPECT_THAT(failure([&] { world->split(0, 0); }, ErrorKind::kPeerLost), HasSubstr("it was ended"));
}

TEST_F(NcclFailures, AGroupThatDoesNotConnectIsAborted) {
  const auto world = open();
  control_->part_hangs = true;
  EXPECT_THAT(failure([&] { world->split(0, 0); }, ErrorKind::kPeerLost), HasSubstr("not within 0.3 s"));
  EXPECT_EQ(alive(), 1);
  control_->part_hangs = false;
  EXPECT_NE(world->split(0, 0), nullptr);
}

}  // namespace
}  // namespace mtf::cuda
