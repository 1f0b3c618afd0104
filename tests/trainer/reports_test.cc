#include <gmock/gmock.h>

#include <limits>

#include "engine/core/error.h"
#include "trainer/interval.h"
#include "trainer/metrics.h"
#include "trainer/progress.h"

namespace mtf {
namespace {

TEST(Metrics, LinesAreJsonInTheOrderGiven) {
  EXPECT_EQ(json_line({{"step", 100}, {"loss", 0.5}}, {{"dataset", "test"}}),
            R"({"dataset":"test","step":100,"loss":0.5})");
  EXPECT_EQ(json_line({{"loss", 0.1f}}, {}), R"({"loss":0.10000000149011612})");
  EXPECT_EQ(json_line({{"loss", std::numeric_limits<double>::quiet_NaN()}}, {}), R"({"loss":null})");
  EXPECT_EQ(json_line({}, {{"dataset", "a\"b"}}), R"({"dataset":"a\"b"})");
}

TEST(Metrics, APathThatCannotBeWrittenIsNamed) {
  try {
    JsonLines("/nowhere/metrics.jsonl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/nowhere/metrics.jsonl"));
  }
}

TEST(Interval, IsDueOncePerInterval) {
  IntervalClock steps(config::Interval::steps(100));
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= 350; ++step) {
    if (steps.due(step, 0, 0)) due.push_back(step);
  }
  EXPECT_THAT(due, ::testing::ElementsAre(100, 200, 300));

  IntervalClock epochs(config::Interval::epochs(1));
  EXPECT_FALSE(epochs.due(1, 0.99, 0));
  EXPECT_TRUE(epochs.due(2, 1.01, 0));
  EXPECT_FALSE(epochs.due(3, 1.9, 0));
  EXPECT_TRUE(epochs.due(4, 2.0, 0));

  IntervalClock seconds(config::Interval::seconds(10));
  EXPECT_FALSE(seconds.due(1, 0, 9));
  EXPECT_TRUE(seconds.due(2, 0, 35));   // three intervals at once are one report
  EXPECT_FALSE(seconds.due(3, 0, 39));  // and the next is due at 40, not at 45
  EXPECT_TRUE(seconds.due(4, 0, 40));

  IntervalClock never(config::Interval::steps(0));
  EXPECT_FALSE(never.due(1000, 10, 10));
}

TEST(Progress, LinesSayWhereTheRunStands) {
  EXPECT_EQ(progress_line({.step = 100,
                           .total = 3000,
                           .epoch = 1.0 / 3,
                           .loss = 0.31234,
                           .examples_per_second = 25000,
                           .seconds_left = 23.2}),
            "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  23 s left");
  EXPECT_EQ(progress_line({.step = 7, .loss = 1, .examples_per_second = 12}),
            "step 7  epoch 0.00  loss 1.0000  12 examples/s");
}

TEST(Progress, TimesAreReadable) {
  EXPECT_EQ(duration_text(0.25), "250 ms");
  EXPECT_EQ(duration_text(3.26), "3.3 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(185), "3 min 05 s");
  EXPECT_EQ(duration_text(7800), "2 h 10 min");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
}

}  // namespace
}  // namespace mtf
