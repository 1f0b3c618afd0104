// Kernels on the emulated GPU: threads, barriers and exchanges behave as on a GPU, broken rules abort, and
// missing barriers are detected.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "engine/backend/cuda/device/kernel_launch.h"
#include "tests/cuda/device_array.h"

namespace mtf::cuda {
namespace {

using testing::DeviceArray;

class Emulator : public ::testing::Test {
 protected:
  template <class Body>
  void run(const LaunchShape& shape, const Body& body, const bool* guard = nullptr) {
    launch(device->compute(), shape, guard, body);
  }
  template <class Body>
  void run_and_wait(const LaunchShape& shape, const Body& body) {
    run(shape, body);
    device->wait(device->compute());
  }
  std::unique_ptr<Device> device = open_device(0);
};

struct Number {
  int64_t* y;
  MTF_DEVICE void operator()(const Block& block) const {
    y[block.first()] = block.first() + 1000 * block.warp();
  }
};

TEST_F(Emulator, RunsEveryThreadOfEveryBlock) {
  DeviceArray<int64_t> y(*device, 5 * 96);
  run({5, 96, 0}, Number{y.data()});
  const auto values = y.get();
  for (int64_t i = 0; i < 5 * 96; ++i) EXPECT_EQ(values[i], i + 1000 * (i % 96 / 32));
}

TEST_F(Emulator, RunsNothingWithoutBlocks) { run_and_wait({0, 96, 0}, Number{nullptr}); }

struct Increment {
  int* y;
  MTF_DEVICE void operator()(const Block& block) const { ++y[block.first()]; }
};

TEST_F(Emulator, LooksAtTheGuardWhenTheKernelRuns) {
  DeviceArray<int> y(*device, 32);
  DeviceArray<char> guard(*device, std::vector<char>{0, 1});
  const auto* guards = reinterpret_cast<const bool*>(guard.data());
  run({1, 32, 0}, Increment{y.data()}, guards);
  EXPECT_EQ(y.get(), std::vector<int>(32, 0));
  run({1, 32, 0}, Increment{y.data()}, guards + 1);
  EXPECT_EQ(y.get(), std::vector<int>(32, 1));
}

template <class T>
struct Totals {
  T* y;
  MTF_DEVICE void operator()(const Block& block) const {
    const T x = static_cast<T>(block.index() + 1) * static_cast<T>(block.thread() + 1);
    T* mine = y + block.first() * 4;
    mine[0] = reduce_block(block, x, Sum{}, block.shared<T>());
    mine[1] = reduce_block(block, x, Max{}, block.shared<T>());
    mine[2] = reduce_block(block, x, Min{}, block.shared<T>());
    mine[3] = reduce_warp(block, x, Max{});
  }
  static constexpr int kMaxThreads = 1024;
};

template <class T>
class EmulatorReductions : public Emulator {};
using Types = ::testing::Types<int32_t, int64_t, float, double>;
TYPED_TEST_SUITE(EmulatorReductions, Types);

TYPED_TEST(EmulatorReductions, GiveEveryThreadTheResultInBlocksOfEverySize) {
  using T = TypeParam;
  for (int threads = 32; threads <= 1024; threads += 32) {
    constexpr int64_t kBlocks = 3;
    DeviceArray<T> y(*this->device, kBlocks * threads * 4);
    this->run({kBlocks, threads, int64_t{sizeof(T)} * threads / kWarp}, Totals<T>{y.data()});
    const auto values = y.get();
    for (int64_t i = 0; i < kBlocks * threads; ++i) {
      const T factor = static_cast<T>(i / threads + 1), n = static_cast<T>(threads);
      ASSERT_EQ(values[i * 4], factor * n * (n + 1) / 2) << threads;
      ASSERT_EQ(values[i * 4 + 1], factor * n) << threads;
      ASSERT_EQ(values[i * 4 + 2], factor) << threads;
      ASSERT_EQ(values[i * 4 + 3], factor * static_cast<T>(i % threads / 32 * 32 + 32)) << threads;
    }
  }
}

struct Exchanges {
  int* y;
  uint32_t* votes;
  MTF_DEVICE void operator()(const Block& block) const {
    const int thread = block.thread();
    int* mine = y + thread * 3;
    mine[0] = block.shuffle(thread, (block.lane() + 5) % kWarp);
    mine[1] = block.shuffle_xor(thread, 3);
    struct Pair {
      double a;
      int64_t b;
    };
    const Pair pair = block.shuffle(Pair{0.5 * thread, thread}, 7);
    mine[2] = static_cast<int>(2 * pair.a) + static_cast<int>(pair.b);
    votes[thread] = block.ballot(thread % 3 == 0);
  }
};

TEST_F(Emulator, ExchangesValuesWithinAWarp) {
  DeviceArray<int> y(*device, 64 * 3);
  DeviceArray<uint32_t> votes(*device, 64);
  for (int launches = 0; launches < 8; ++launches) {
    run({1, 64, 0}, Exchanges{y.data(), votes.data()});
    const auto values = y.get();
    for (int i = 0; i < 64; ++i) {
      const int warp = i / 32 * 32;
      EXPECT_EQ(values[i * 3], warp + (i + 5) % 32);
      EXPECT_EQ(values[i * 3 + 1], i ^ 3);
      EXPECT_EQ(values[i * 3 + 2], 2 * (warp + 7));
      uint32_t expected = 0;
      for (int lane = 0; lane < 32; ++lane) expected |= uint32_t{(warp + lane) % 3 == 0} << lane;
      EXPECT_EQ(votes.get()[i], expected);
    }
  }
}

/// Each block reverses the numbers of its threads.
template <bool with_barrier>
struct Reverse {
  int* y;
  MTF_DEVICE void operator()(const Block& block) const {
    int* numbers = block.shared<int>();
    numbers[block.thread()] = block.thread();
    if (with_barrier) block.sync();
    y[block.thread()] = numbers[block.threads() - 1 - block.thread()];
  }
};

TEST_F(Emulator, GivesOtherResultsFromLaunchToLaunchWhereABarrierIsMissing) {
  DeviceArray<int> y(*device, 128);
  std::set<std::vector<int>> with, without;
  for (int launches = 0; launches < 8; ++launches) {
    run({1, 128, 512}, Reverse<true>{y.data()});
    with.insert(y.get());
  }
  for (int launches = 0; launches < 8; ++launches) {
    run({1, 128, 512}, Reverse<false>{y.data()});
    without.insert(y.get());
  }
  EXPECT_EQ(with.size(), 1);
  EXPECT_GE(without.size(), 2);
}

/// Each block reduces twice in the same shared memory.
template <bool with_barrier>
struct Twice {
  int* y;
  MTF_DEVICE void operator()(const Block& block) const {
    int* shared = block.shared<int>();
    for (int round = 1; round <= 2; ++round) {
      if (block.lane() == 0) shared[block.warp()] = round;
      block.sync();
      int sum = 0;
      for (int warp = 0; warp < block.warps(); ++warp) sum += shared[warp];
      y[block.thread()] = round == 1 ? sum : y[block.thread()] + sum;
      if (with_barrier) block.sync();
    }
  }
};

TEST_F(Emulator, ShowsThatSharedMemoryIsWrittenBeforeAllHaveReadIt) {
  DeviceArray<int> y(*device, 128);
  run({1, 128, 16}, Twice<true>{y.data()});
  EXPECT_EQ(y.get(), std::vector<int>(128, 12));
  run({1, 128, 16}, Twice<false>{y.data()});
  EXPECT_NE(y.get(), std::vector<int>(128, 12));
}

/// Each lane reads what the next lane has written.
template <bool with_barrier>
struct Neighbour {
  int* y;
  MTF_DEVICE void operator()(const Block& block) const {
    int* numbers = block.shared<int>();
    numbers[block.thread()] = block.thread();
    if (with_barrier) block.sync_warp();
    y[block.thread()] = numbers[block.thread() ^ 1];
  }
};

TEST_F(Emulator, OrdersTheLanesOfAWarpOnlyByBarriers) {
  DeviceArray<int> y(*device, 64);
  std::vector<int> expected(64);
  for (int i = 0; i < 64; ++i) expected[i] = i ^ 1;
  for (int launches = 0; launches < 4; ++launches) {
    run({1, 64, 256}, Neighbour<true>{y.data()});
    EXPECT_EQ(y.get(), expected);
    run({1, 64, 256}, Neighbour<false>{y.data()});
    EXPECT_NE(y.get(), expected);
  }
}

struct Follow {
  int* y;
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.thread() == 0) y[0] = static_cast<int>(block.index());
  }
};

TEST_F(Emulator, ChangesTheOrderOfBlocks) {
  DeviceArray<int> y(*device, 1);
  std::set<int> last;
  for (int launches = 0; launches < 2; ++launches) {
    run({7, 32, 0}, Follow{y.data()});
    last.insert(y.get()[0]);
  }
  EXPECT_EQ(last, (std::set<int>{0, 6}));
}

struct ReadShared {
  float* y;
  MTF_DEVICE void operator()(const Block& block) const {
    y[block.first()] = block.shared<float>()[block.thread()];
    block.shared<float>()[block.thread()] = 0;
  }
};

TEST_F(Emulator, GivesEveryBlockSharedMemoryOfGarbage) {
  DeviceArray<float> y(*device, 64);
  run({2, 32, 128}, ReadShared{y.data()});
  for (float value : y.get()) EXPECT_TRUE(std::isnan(value));
}

struct Nothing {
  MTF_DEVICE void operator()(const Block&) const {}
};
struct OneEndsEarly {
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.thread() != 40) block.sync();
  }
};
struct AWarpEndsEarly {
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.warp() != 1) block.sync();
  }
};
struct HalfAWarp {
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.lane() < 16) {
      block.sync_warp();
    } else {
      block.shuffle(1, 0);
    }
  }
};
struct DifferentTypes {
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.lane() < 16) {
      block.shuffle(1.0, 20);
    } else {
      block.shuffle(1.0F, 20);
    }
  }
};
struct TooMuchSharedMemory {
  int end;
  MTF_DEVICE void operator()(const Block& block) const {
    if (block.thread() == 0) block.shared<int>()[end] = 1;
  }
};

using EmulatorDeathTest = Emulator;

TEST_F(EmulatorDeathTest, NamesTheRuleThatALaunchBreaks) {
  EXPECT_DEATH(run({1, 48, 0}, Nothing{}), "Nothing is launched with 48 threads");
  EXPECT_DEATH(run({1, 0, 0}, Nothing{}), "Nothing is launched with 0 threads");
  EXPECT_DEATH(run({1, 512, 0}, Nothing{}), "Nothing is launched with 512 threads");
  EXPECT_DEATH(run({int64_t{1} << 31, 32, 0}, Nothing{}), "Nothing is launched with 2147483648 blocks");
  EXPECT_DEATH(run({-1, 32, 0}, Nothing{}), "Nothing is launched with -1 blocks");
  EXPECT_DEATH(run({1, 32, (163 << 10) + 1}, Nothing{}),
               "Nothing is launched with 166913 bytes of shared memory");
  EXPECT_DEATH(launch(Stream{}, {1, 32, 0}, nullptr, Nothing{}), "is no stream");
}

TEST_F(EmulatorDeathTest, NamesTheThreadsThatDoNotMeet) {
  EXPECT_DEATH(run_and_wait({1, 64, 0}, OneEndsEarly{}),
               "block 0 of .*OneEndsEarly, thread 32 waits at sync.., but thread 40 has ended");
  EXPECT_DEATH(run_and_wait({1, 96, 0}, AWarpEndsEarly{}),
               "block 0 of .*AWarpEndsEarly, thread 0 waits at sync.., but thread 32 has ended");
  EXPECT_DEATH(run_and_wait({1, 32, 0}, HalfAWarp{}),
               "HalfAWarp, thread 0 waits at sync_warp.., but thread 16 waits for an exchange");
  EXPECT_DEATH(run_and_wait({1, 32, 0}, DifferentTypes{}), "an exchange of 8 bytes with 4 bytes");
}

TEST_F(EmulatorDeathTest, FindsWritesBehindSharedMemory) {
  EXPECT_DEATH(run_and_wait({1, 32, 100}, TooMuchSharedMemory{25}),
               "TooMuchSharedMemory wrote behind its 100 bytes|heap-buffer-overflow");
}

TEST_F(EmulatorDeathTest, FindsWritesBehindMemoryOfTheDevice) {
  DeviceArray<int64_t> y(*device, 32);
  EXPECT_DEATH(run_and_wait({2, 32, 0}, Number{y.data()}), "");
}

TEST_F(EmulatorDeathTest, KeepsTheHostOutOfMemoryOfTheDevice) {
  DeviceArray<int> y(*device, 32);
  EXPECT_DEATH(y.data()[0] = 1, "");
}

}  // namespace
}  // namespace mtf::cuda
