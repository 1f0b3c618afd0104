#include "engine/runtime/active_workers.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

using std::chrono::milliseconds;
using Time = ActiveWorkers::Nanoseconds;

/// A simulated pool whose calling thread waits at the end of every millisecond.
struct Pool {
  ActiveWorkers active;
  Time now = milliseconds(1000), worked{0};

  explicit Pool(int workers) : active(workers) {
    active.wait_ended({.now = now, .lost = Time(0), .worked = worked});
  }

  /// Simulates `count` milliseconds. In each of them `lost` milliseconds are lost, and the workers work for
  /// `work` milliseconds.
  void pass(int count, double lost, double work) {
    for (int i = 0; i < count; ++i) {
      now += milliseconds(1);
      if (active.may_raise(now)) active.raise(now, worked);
      if (active.count() == 0) continue;
      worked += Time(static_cast<int64_t>(work * 1e6));
      active.wait_ended({.now = now, .lost = Time(static_cast<int64_t>(lost * 1e6)), .worked = worked});
    }
  }
  /// The number of milliseconds until there are more workers.
  int until_raised() {
    const int before = active.count();
    for (int i = 1; i < 10'000; ++i) {
      pass(1, 0, 0);
      if (active.count() > before) return i;
    }
    return 0;
  }
};

TEST(ActiveWorkers, AllTakePartWhileTheySaveMoreThanTheyLose) {
  Pool pool(3);
  pool.pass(1000, 0, 2.5);
  EXPECT_EQ(pool.active.count(), 3);
  Pool one(1);
  one.pass(1000, 0.4, 0.5);
  EXPECT_EQ(one.active.count(), 1);
}

TEST(ActiveWorkers, NoneTakesPartWhereOneLosesMoreThanItSaves) {
  Pool pool(1);
  pool.pass(5, 0.6, 0.5);
  EXPECT_EQ(pool.active.count(), 1) << "too early to tell";
  pool.pass(5, 0.6, 0.5);
  EXPECT_EQ(pool.active.count(), 0);
}

TEST(ActiveWorkers, OneStallThatWorkOutweighsChangesNothing) {
  Pool pool(1);
  pool.pass(9, 0, 0.9);
  pool.pass(1, 1, 0);
  pool.pass(100, 0, 0.9);
  EXPECT_EQ(pool.active.count(), 1);
}

TEST(ActiveWorkers, HalfOfManyThreadsStayFirst) {
  Pool pool(15);
  pool.pass(10, 0.9, 1);
  EXPECT_EQ(pool.active.count(), 7);
  pool.pass(10, 0.9, 1);
  EXPECT_EQ(pool.active.count(), 3);
}

TEST(ActiveWorkers, NoneStaysWhereAllTogetherLoseMoreThanTheySave) {
  Pool pool(15);
  pool.pass(10, 0.9, 0.8);
  EXPECT_EQ(pool.active.count(), 0);
}

TEST(ActiveWorkers, AreTriedAgainAfterATimeThatGrowsWithWhatWasLost) {
  Pool pool(1);
  pool.pass(10, 0.6, 0.5);
  const int first = pool.until_raised();
  EXPECT_NEAR(first, 16 * 6, 1);
  pool.pass(10, 0.6, 0.5);
  ASSERT_EQ(pool.active.count(), 0) << "the attempt fails";
  const int second = pool.until_raised();
  EXPECT_NEAR(second, 2 * first, 2);
  for (int i = 0; i < 10; ++i) {
    pool.pass(10, 0.6, 0.5);
    ASSERT_EQ(pool.active.count(), 0);
    EXPECT_LE(pool.until_raised(), 501);
  }
}

TEST(ActiveWorkers, AllTakePartAgainSoonAfterTheMachineIsFree) {
  Pool pool(15);
  pool.pass(2000, 0.9, 0.1);
  EXPECT_LE(pool.active.count(), 1);
  pool.pass(600, 0, 1);
  EXPECT_EQ(pool.active.count(), 15);
}

}  // namespace
}  // namespace mtf
