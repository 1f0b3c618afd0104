#include <gmock/gmock.h>

#include "trainer/checkpoint/interval.h"

namespace mtf {
namespace {

TEST(Interval, IsDueOncePerInterval) {
  IntervalClock steps(config::Interval::steps(100));
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= 350; ++step) {
    if (steps.due({step, 0, 0})) due.push_back(step);
  }
  EXPECT_THAT(due, ::testing::ElementsAre(100, 200, 300));

  IntervalClock epochs(config::Interval::epochs(1));
  EXPECT_FALSE(epochs.due({1, 0.99, 0}));
  EXPECT_TRUE(epochs.due({2, 1.01, 0}));
  EXPECT_FALSE(epochs.due({3, 1.9, 0}));
  EXPECT_TRUE(epochs.due({4, 2.0, 0}));

  IntervalClock seconds(config::Interval::seconds(10));
  EXPECT_FALSE(seconds.due({1, 0, 9}));
  EXPECT_TRUE(seconds.due({2, 0, 35}));   // three intervals at once give one report
  EXPECT_FALSE(seconds.due({3, 0, 39}));  // and the next is due at 40, not at 45
  EXPECT_TRUE(seconds.due({4, 0, 40}));

  IntervalClock never(config::Interval::steps(0));
  EXPECT_FALSE(never.due({1000, 10, 10}));
}

}  // namespace
}  // namespace mtf
