// The library of collectives between GPUs in a group of one process: what it does without other processes reaches each
// of its calls.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/base/error.h"
#include "engine/comm/communicator.h"
#include "tests/cuda/device_array.h"
#include "tests/support/gpu_gate.h"

namespace mtf::cuda {
namespace {

using testing::DeviceArray;

constexpr int64_t kCount = 1 << 18;

/// Why collectives cannot be used; nothing if they can.
std::optional<std::string> missing_library() {
  try {
    collectives_version();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto missing = missing_library()) {
      ASSERT_FALSE(mtf::testing::is_gpu_required()) << *missing;
      GTEST_SKIP() << *missing;
    }
    world_ = open_collectives(*device_, host_, {});
    group_ = world_->split(0, 0);
  }

  /// Enqueues a sum over the one process and a message to itself, between events as a step has them.
  void enqueue() {
    ready_->record(device_->compute());
    ready_->wait_in(messages_);
    group_->run(messages_, [&] {
      group_->all_reduce(in_.bytes(), sum_.bytes(), kCount, DType::kFloat32);
      group_->send(in_.bytes(), kCount * 4, 0);
      group_->receive(received_.bytes(), kCount * 4, 0);
    });
    sent_->record(messages_);
    sent_->wait_in(device_->compute());
  }

  /// Expects that `run` brings new values through both collectives.
  template <class Run>
  void expect_values(float first, const Run& run) {
    std::vector<float> values(kCount);
    for (int64_t i = 0; i < kCount; ++i)
      values[static_cast<size_t>(i)] = first + static_cast<float>(i % 1000);
    in_.set(values);
    run();
    EXPECT_EQ(sum_.get(), values);
    EXPECT_EQ(received_.get(), values);
  }

  std::unique_ptr<Device> device_ = open_device(0);
  InProcessCommunicator host_;
  std::unique_ptr<DeviceCollectives> world_, group_;
  DeviceArray<float> in_{*device_, kCount}, sum_{*device_, kCount}, received_{*device_, kCount};
  const Stream messages_ = device_->make_stream();
  const std::unique_ptr<Event> ready_ = device_->make_event(), sent_ = device_->make_event();
};

TEST_F(Nccl, RunsEagerlyAndRecorded) {
  expect_values(1, [&] { enqueue(); });
  const std::unique_ptr<Recording> recording = device_->record([&] { enqueue(); });
  expect_values(2, [&] { recording->replay(); });
  expect_values(3, [&] { enqueue(); });
  expect_values(4, [&] { recording->replay(); });
  group_->check();
  world_->check();
}

TEST_F(Nccl, GathersAndScatters) {
  in_.set(std::vector<float>(kCount, 5));
  world_->run(messages_, [&] {
    world_->all_gather(in_.bytes(), received_.bytes(), kCount * 4);
    world_->reduce_scatter(in_.bytes(), sum_.bytes(), kCount, DType::kFloat32);
  });
  device_->wait(messages_);
  EXPECT_EQ(received_.get(), std::vector<float>(kCount, 5));
  EXPECT_EQ(sum_.get(), std::vector<float>(kCount, 5));
}

/// abort() may wait for recordings that hold calls of the group.
TEST_F(Nccl, AbortEndsOnceTheRecordingHasGone) {
  enqueue();
  std::unique_ptr<Recording> recording = device_->record([&] { enqueue(); });
  recording->replay();
  device_->wait(device_->compute());
  const auto begin = std::chrono::steady_clock::now();
  std::thread aborting([&] { group_->abort(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  recording.reset();
  aborting.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace mtf::cuda
