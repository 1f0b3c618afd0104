#include "trainer/report/progress.h"

#include <gmock/gmock.h>

#include <fstream>

namespace mtf {
namespace {

using ::testing::HasSubstr;

const ProgressState kState = {.step = 100,
                              .total = 3000,
                              .epoch = 1.0 / 3,
                              .loss = 0.31234,
                              .examples_per_second = 25000,
                              .seconds_left = 23.2};

TEST(WorkLine, ShowsTheShareThatIsDone) {
  EXPECT_EQ(work_line({"tokenising", 42, 100}), "tokenising  42 %");
  EXPECT_EQ(work_line({"packing"}), "packing");
  EXPECT_EQ(work_bar({"tokenising", 50, 100}, 40), "[##########..........] tokenising  50 %");
  EXPECT_EQ(work_bar({"tokenising", 50, 100}, 12), "tokenising  ");
}

TEST(Progress, LinesSayWhereTheRunStands) {
  EXPECT_EQ(progress_line(kState), "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  23 s left");
  ProgressState of_texts = kState;
  of_texts.tokens_per_second = 1234567;
  EXPECT_EQ(progress_line(of_texts), "step 100/3000  epoch 0.33  loss 0.3123  1,234,567 tokens/s  23 s left");
  EXPECT_EQ(progress_line({.step = 7, .loss = 1, .examples_per_second = 12}),
            "step 7  epoch 0.00  loss 1.0000  12 examples/s");
}

TEST(Progress, LinesSayWhatTheDevicesDo) {
  ProgressState state = kState;
  state.utilization = 0.4123;
  state.memory_bytes = 1'210'000'000;
  EXPECT_EQ(progress_line(state),
            "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  41.2 % MFU  1.21 GB  23 s left");
  EXPECT_EQ(progress_bar(state, 85),
            "step 100/3000  epoch 0.33  loss 0.3123  25,000 examples/s  41.2 % MFU  23 s left");
  EXPECT_EQ(progress_bar(state, 75), progress_line(kState));
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

TEST(Progress, TheBarGrowsWithTheSteps) {
  const auto bar = [](int64_t step) {
    const std::string text = progress_bar({.step = step, .total = 40}, 200);
    return text.substr(0, text.find(' '));
  };
  EXPECT_EQ(bar(0), "[........................................]");
  EXPECT_EQ(bar(10), "[##########..............................]");
  EXPECT_EQ(bar(40), "[########################################]");
  EXPECT_EQ(bar(50), "[########################################]");
}

TEST(Progress, NarrowTerminalsGetWhatMattersMost) {
  EXPECT_EQ(progress_bar(kState, 100), "[....................] " + progress_line(kState));
  EXPECT_EQ(progress_bar(kState, 80), progress_line(kState));
  EXPECT_EQ(progress_bar(kState, 60), "step 100/3000  loss 0.3123  25,000 examples/s  23 s left");
  EXPECT_EQ(progress_bar(kState, 40), "step 100/3000  loss 0.3123  23 s left");
  EXPECT_EQ(progress_bar(kState, 30), "step 100/3000  loss 0.3123");
  EXPECT_EQ(progress_bar(kState, 20), "step 100/3000");
  EXPECT_EQ(progress_bar(kState, 6), "step 1");
  for (int columns = 1; columns < 200; ++columns)
    EXPECT_LE(std::ssize(progress_bar(kState, columns)), columns);
}

TEST(Progress, AnUnknownTotalHasNoBar) {
  EXPECT_EQ(progress_bar({.step = 7, .loss = 1}, 200), progress_line({.step = 7, .loss = 1}));
}

TEST(Progress, TheLogIsWrittenAnewOrContinued) {
  const std::string path = ::testing::TempDir() + "progress_test.log";
  const auto log = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  Progress({.log_file = path}).record("first");
  Progress({.log_file = path, .append = true}).record("second");
  EXPECT_THAT(log(), HasSubstr("first\n"));
  EXPECT_THAT(log(), HasSubstr("second\n"));
  Progress({.log_file = path}).record("third");
  EXPECT_THAT(log(), ::testing::Not(HasSubstr("second")));
  std::remove(path.c_str());
}

TEST(Progress, TheLogMarksErrorsAlone) {
  const std::string path = ::testing::TempDir() + "progress_levels_test.log";
  {
    Progress progress({.log_file = path, .quiet = true});
    progress.info("begins");
    progress.warning("slow disk");
    progress.record("memory: 2 GB planned");
    progress.record_error("disk full");
  }
  std::ifstream file(path);
  const std::string log(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(log, HasSubstr(" info: begins\n"));
  EXPECT_THAT(log, HasSubstr(" warning: slow disk\n"));
  EXPECT_THAT(log, HasSubstr(" info: memory: 2 GB planned\n"));
  EXPECT_THAT(log, HasSubstr(" error: disk full\n"));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace mtf
