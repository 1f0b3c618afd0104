#include "engine/base/periodic_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace mtf {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PeriodicThread, TakesTurnsForAsLongAsItLives) {
  std::atomic<int> turns = 0;
  {
    const PeriodicThread thread(milliseconds(1), [&] { return ++turns > 0; });
    while (turns < 3) std::this_thread::yield();
  }
  const int taken = turns;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(turns, taken);
}

TEST(PeriodicThread, EndsWithATurnThatSaysSo) {
  std::atomic<int> turns = 0;
  const PeriodicThread thread(milliseconds(1), [&] { return ++turns < 3; });
  while (turns < 3) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(turns, 3);
}

TEST(PeriodicThread, APauseComesFirstAndEndsAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round)
    PeriodicThread(hours(1), [] { return ADD_FAILURE() << "a turn before the pause", true; });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(60));
}

TEST(PeriodicThread, ATurnIsWaitedFor) {
  std::promise<void> begun;
  std::atomic<bool> ended = false;
  {
    const PeriodicThread thread(milliseconds(1), [&] {
      begun.set_value();
      std::this_thread::sleep_for(milliseconds(20));
      ended = true;
      return false;
    });
    begun.get_future().wait();
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace mtf
