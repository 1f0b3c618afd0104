// Tests how many steps train.epochs are.
#include <gmock/gmock.h>

#include "trainer/session/session.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

/// 10,000 examples in batches of 64.
Session session_with(const std::string& epochs) {
  Diagnostics diagnostics;
  Session session = open_session(
      {MTF_SOURCE_DIR "/configs/models/toy.yaml"},
      {"train.batch_size=64", "train.steps=null", "train.epochs=" + epochs, "run.model_dir=never_written"},
      diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

TEST(PlannedSteps, AreAllBatchesOfTheEpochs) {
  EXPECT_EQ(planned_steps(session_with("1")), 157);
  EXPECT_EQ(planned_steps(session_with("0.0064")), 1);
  EXPECT_EQ(planned_steps(session_with("2"), 157, 157 * 64), 157 + 156);
  EXPECT_EQ(planned_steps(session_with("4e14")), 62'500'000'000'000'000);
}

TEST(PlannedSteps, MoreThanCanBeCountedAreRefused) {
  for (const char* epochs : {"5e14", "1e17", "1e300"}) {
    try {
      planned_steps(session_with(epochs));
      FAIL() << epochs;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(),
                  HasSubstr("passes over 10,000 examples are too many to count; at most 1e+14"));
      EXPECT_EQ(error.problems().front().mark.file, "argument 4");
    }
  }
}

}  // namespace
}  // namespace mtf
