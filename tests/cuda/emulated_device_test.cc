// The emulated GPU's streams, events, memory and recordings keep exactly the promises of Device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backend/cuda/device/kernel_launch.h"
#include "engine/base/error.h"
#include "tests/cuda/device_array.h"

namespace mtf::cuda {
namespace {

using testing::DeviceArray;

/// y = 10 y + digit, which shows what has run, and in which order.
struct Append {
  int* y;
  int digit;
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.thread() == 0) *y = 10 * *y + digit;
  }
};

class EmulatedDeviceTest : public ::testing::Test {
 protected:
  void append(Stream stream, int digit) { launch(stream, {1, 32, 0}, nullptr, Append{y.data(), digit}); }
  int value() { return y.get()[0]; }

  std::unique_ptr<Device> device = open_device(0);
  DeviceArray<int> y{*device, 1};
  Stream compute = device->compute();
  Stream other = device->make_stream();
  std::unique_ptr<Event> event = device->make_event(), back = device->make_event();
};

TEST_F(EmulatedDeviceTest, GivesZeroedAlignedMemory) {
  for (int64_t size : {1, 64, 255, 257, 100'000}) {
    DeviceArray<char> memory(*device, size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0);
    EXPECT_EQ(memory.get(), std::vector<char>(size, 0));
    memory.set(std::vector<char>(size, 1));
    device->zero(compute, memory.bytes(), size / 2);
    std::vector<char> expected(size, 1);
    std::fill(expected.begin(), expected.begin() + size / 2, 0);
    EXPECT_EQ(memory.get(), expected);
  }
}

TEST_F(EmulatedDeviceTest, HasNoMoreMemoryThanItsFigure) {
  EXPECT_EQ(device->info().memory_bytes, int64_t{16} << 30);
  std::byte* half = device->allocate(int64_t{8} << 30);
  try {
    device->allocate(int64_t{8} << 30);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
    EXPECT_NE(std::string(error.what()).find("8587837440 of 17179869184 bytes free; 8589934592 are needed"),
              std::string::npos)
        << error.what();
  }
  device->free(half);
  device->free(device->allocate(int64_t{15} << 30));
}

TEST_F(EmulatedDeviceTest, SmallAllocationsShareBlocks) {
  constexpr int64_t kBlock = 2 << 20;
  const int64_t before = device->memory_state().free;  // y is in a block
  std::byte* small = device->allocate(1000);
  EXPECT_EQ(device->memory_state().free, before);
  std::byte* large = device->allocate(kBlock + 1);
  EXPECT_EQ(device->memory_state().free, before - 2 * kBlock);
  device->free(small);
  device->free(large);
  EXPECT_EQ(device->memory_state().free, before);
}

TEST(EmulatedMemory, HasTheSizeThatTheEnvironmentSays) {
  setenv("MTF_EMULATED_MEMORY", "5000000", 1);
  const std::unique_ptr<Device> device = open_device(0);
  unsetenv("MTF_EMULATED_MEMORY");
  EXPECT_EQ(device->memory_state().total, 5'000'000);
  EXPECT_THROW(device->allocate(6'000'000), Error);
  device->free(device->allocate(4 << 20));
}

TEST_F(EmulatedDeviceTest, RunsWorkWhenTheHostWaits) {
  auto pinned = device->allocate_pinned(sizeof(int));
  append(compute, 1);
  device->copy(compute, pinned->data(), y.bytes(), sizeof(int));
  event->record(compute);
  append(compute, 2);
  const auto read = [&] {
    int result;
    std::memcpy(&result, pinned->data(), sizeof(int));
    return result;
  };
  EXPECT_EQ(read(), -1);  // not copied yet
  event->wait();
  EXPECT_EQ(read(), 1);
  EXPECT_EQ(value(), 12);
}

TEST_F(EmulatedDeviceTest, OrdersStreamsOnlyByEvents) {
  append(other, 1);
  append(compute, 2);
  EXPECT_EQ(value(), 2);
  device->wait(other);
  EXPECT_EQ(value(), 21);
  append(other, 3);
  event->record(other);
  append(other, 4);
  event->wait_in(compute);
  append(compute, 5);
  EXPECT_EQ(value(), 2135);
  device->wait(other);
  EXPECT_EQ(value(), 21354);
}

TEST_F(EmulatedDeviceTest, DoesNotWaitForAnEventThatWasNeverRecorded) {
  event->wait();
  event->wait_in(compute);
  append(compute, 1);
  EXPECT_EQ(value(), 1);
}

TEST_F(EmulatedDeviceTest, KeepsBoundedWork) {
  for (int i = 0; i < 5000; ++i) append(compute, 0);
  append(compute, 7);
  EXPECT_EQ(value(), 7);
}

TEST_F(EmulatedDeviceTest, WorksForSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<DeviceArray<int>*> totals;
  for (int i = 0; i < 4; ++i) totals.push_back(new DeviceArray<int>(*device, 1));
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 100; ++round) {
        launch(compute, {1, 64, 0}, nullptr, Append{totals[i]->data(), 0});
        device->wait(compute);
      }
      launch(compute, {1, 64, 0}, nullptr, Append{totals[i]->data(), i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(totals[i]->get()[0], i);
    delete totals[i];
  }
}

TEST_F(EmulatedDeviceTest, ReplaysWhatWasRecorded) {
  DeviceArray<int> z(*device, 1);
  const auto recording = device->record([&] {
    append(compute, 1);
    append(compute, 2);
    device->copy(compute, z.bytes(), y.bytes(), sizeof(int));
    device->zero(compute, y.bytes(), sizeof(int));
    append(compute, 3);
  });
  EXPECT_EQ(value(), 0);
  recording->replay();
  EXPECT_EQ(value(), 3);
  EXPECT_EQ(z.get()[0], 12);
  append(compute, 4);
  recording->replay();
  EXPECT_EQ(value(), 3);
  EXPECT_EQ(z.get()[0], 3412);
}

TEST_F(EmulatedDeviceTest, RecordsStreamsThatWaitForTheComputeStream) {
  const auto recording = device->record([&] {
    append(compute, 1);
    event->record(compute);
    event->wait_in(other);
    append(other, 2);
    back->record(other);
    back->wait_in(compute);
    append(compute, 3);
  });
  append(other, 4);  // the stream runs its work again
  device->wait(other);
  EXPECT_EQ(value(), 4);
  recording->replay();
  EXPECT_EQ(value(), 4123);
}

TEST_F(EmulatedDeviceTest, DoesNotRecordOtherStreams) {
  const auto recording = device->record([&] {
    append(other, 1);
    append(compute, 2);
  });
  device->wait(other);
  EXPECT_EQ(value(), 1);
}

TEST_F(EmulatedDeviceTest, WorksAfterARecordingThatFailed) {
  EXPECT_THROW(device->record([&] {
    append(compute, 1);
    throw Error(ErrorKind::kSystem, "no");
  }),
               Error);
  append(compute, 2);
  EXPECT_EQ(value(), 2);
}

using EmulatedDeviceDeathTest = EmulatedDeviceTest;

TEST_F(EmulatedDeviceDeathTest, AbortsOnWhatARecordingMustNotDo) {
  const auto recording = [&](auto enqueue) { device->record(enqueue); };
  EXPECT_DEATH(recording([&] { device->allocate(1); }), "allocate.. is called while work is recorded");
  EXPECT_DEATH(recording([&] { device->allocate_pinned(1); }), "allocate_pinned.. is called");
  EXPECT_DEATH(recording([&] { device->wait(compute); }), "wait.. is called");
  EXPECT_DEATH(recording([&] { event->wait(); }), "Event::wait.. is called");
  EXPECT_DEATH(recording([&] { device->record([] {}); }), "record.. is called");
  auto pinned = device->allocate_pinned(sizeof(int));
  EXPECT_DEATH(recording([&] { device->copy(compute, y.bytes(), pinned->data(), sizeof(int)); }),
               "pinned memory in a recording");
}

TEST_F(EmulatedDeviceDeathTest, AbortsOnStreamsThatLeaveARecording) {
  const auto fork = [&](bool work_before, bool join, bool work_after) {
    device->record([&] {
      event->record(compute);
      event->wait_in(other);
      if (work_before) append(other, 1);
      back->record(other);
      if (join) back->wait_in(compute);
      if (work_after) append(other, 2);
    });
  };
  fork(true, true, false);
  fork(false, true, false);
  EXPECT_DEATH(fork(true, false, false), "does not wait for all that another stream does");
  EXPECT_DEATH(fork(false, false, false), "does not wait for all that another stream does");
  EXPECT_DEATH(fork(true, true, true), "does not wait for all that another stream does");
}

TEST_F(EmulatedDeviceDeathTest, AbortsOnEventsOfAnotherTime) {
  event->record(other);
  EXPECT_DEATH(device->record([&] { event->wait_in(compute); }), "event from outside of the recording");
  device->record([&] { event->record(compute); });
  EXPECT_DEATH(event->wait(), "the host waits for an event of a recording");
  EXPECT_DEATH(event->wait_in(compute), "the recording of an event has ended");
}

TEST_F(EmulatedDeviceDeathTest, AbortsOnCopiesOfOtherMemory) {
  int local = 0;
  EXPECT_DEATH(device->copy(compute, y.bytes(), reinterpret_cast<std::byte*>(&local), sizeof(int)),
               "4 bytes at .* are neither memory of a device nor pinned memory");
  EXPECT_DEATH(device->zero(compute, y.bytes(), 5), "5 bytes at .* are neither");
  EXPECT_DEATH(device->free(reinterpret_cast<std::byte*>(&local)),
               "free.. of what is not allocated on GPU 0");
  DeviceArray<char> memory(*device, 200);
  EXPECT_DEATH(device->copy(compute, memory.bytes() + 50, memory.bytes(), 51),
               "a copy of 51 bytes onto themselves");
}

TEST_F(EmulatedDeviceDeathTest, AbortsOnPinnedMemoryThatChangesBeforeItIsCopied) {
  auto pinned = device->allocate_pinned(sizeof(int));
  device->copy(other, y.bytes(), pinned->data(), sizeof(int));
  event->record(other);
  event->wait();
  pinned->data()[0] = std::byte{1};
  device->copy(other, y.bytes(), pinned->data(), sizeof(int));
  const std::byte before = std::exchange(pinned->data()[0], std::byte{2});
  EXPECT_DEATH(device->wait(other), "the host has changed pinned memory that was not copied yet");
  pinned->data()[0] = before;
}

TEST(EmulatedStreams, RunEarlyWhereTheyDoNotWait) {
  setenv("MTF_EMULATED_STREAMS", "early", 1);
  const std::unique_ptr<Device> device = open_device(0);
  const Stream compute = device->compute(), other = device->make_stream();
  unsetenv("MTF_EMULATED_STREAMS");
  DeviceArray<int> x(*device, std::vector<int>{1}), y(*device, 1);
  const auto event = device->make_event();
  const auto copy_then_clear = [&](bool waits) {
    device->copy(compute, y.bytes(), x.bytes(), sizeof(int));
    event->record(compute);
    if (waits) event->wait_in(other);
    device->zero(other, x.bytes(), sizeof(int));
    return y.get()[0];
  };
  EXPECT_EQ(copy_then_clear(true), 1);
  x.set({1});
  EXPECT_EQ(copy_then_clear(false), 0);
}

TEST(EmulatedDevices, AreAsManyAsTheEnvironmentSays) {
  EXPECT_EQ(visible_devices().size(), 1);
  setenv("MTF_EMULATED_DEVICES", "3", 1);
  const std::vector<DeviceInfo> devices = visible_devices();
  ASSERT_EQ(devices.size(), 3);
  EXPECT_EQ(devices[2].index, 2);
  EXPECT_EQ(devices[2].name, "emulated GPU");
  EXPECT_EQ(devices[2].architecture(), "sm_90");
  EXPECT_EQ(devices[2].pci, "0000:03:00.0");
  EXPECT_EQ(devices[2].peers, std::vector<bool>(3, true));
  EXPECT_EQ(open_device(2)->info().index, 2);
  EXPECT_THROW(open_device(3), Error);
  setenv("MTF_EMULATED_DEVICES", "0", 1);
  EXPECT_THROW(visible_devices(), Error);
  unsetenv("MTF_EMULATED_DEVICES");
}

TEST(EmulatedDevices, CopyToEachOther) {
  setenv("MTF_EMULATED_DEVICES", "2", 1);
  const auto first = open_device(0), second = open_device(1);
  unsetenv("MTF_EMULATED_DEVICES");
  DeviceArray<int> x(*first, std::vector<int>{1, 2, 3}), y(*second, 3);
  const auto event = first->make_event();
  first->copy(first->compute(), y.bytes(), x.bytes(), 3 * sizeof(int));
  event->record(first->compute());
  EXPECT_EQ(y.get(), std::vector<int>(3, 0));
  event->wait_in(second->compute());
  EXPECT_EQ(y.get(), (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace mtf::cuda
