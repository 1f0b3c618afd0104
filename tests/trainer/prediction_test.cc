// Tests the predicted time of schedules whose times a reader can add up.
#include "trainer/costs/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtf {
namespace {

ScheduledWork work(double seconds, WorkKind kind = WorkKind::kProduct) {
  return {NamedScope("layer", {}), Phase::kForward, kind, 0, 0, seconds};
}
ScheduledStart start(int64_t message, double seconds, double processor = 0) {
  return {message, "all_reduce", axis_bit(0), NamedScope("layer", {}), Phase::kForward,
          0,       seconds,      processor};
}
ScheduledWait wait(std::vector<int64_t> messages) { return {std::move(messages)}; }

void expect(const StepPrediction& step, double seconds, double computing, double waiting, double sending) {
  EXPECT_DOUBLE_EQ(step.seconds, seconds);
  EXPECT_DOUBLE_EQ(step.computing, computing);
  EXPECT_DOUBLE_EQ(step.waiting, waiting);
  EXPECT_DOUBLE_EQ(step.sending, sending);
}

TEST(Prediction, ComputingIsToldByKind) {
  const StepPrediction step = predict_step({work(3), work(2, WorkKind::kNorm), work(1)}, 0.5);
  expect(step, 6.5, 6.5, 0, 0);
  EXPECT_DOUBLE_EQ(step.kinds[static_cast<size_t>(WorkKind::kProduct)], 4);
  EXPECT_DOUBLE_EQ(step.kinds[static_cast<size_t>(WorkKind::kNorm)], 2);
}

TEST(Prediction, TheNetworkSendsWhileTheProcessorComputes) {
  expect(predict_step({work(1), start(0, 2.5), work(1), wait({0}), work(1)}), 4.5, 3, 1.5, 2.5);
  expect(predict_step({work(1), start(0, 2.5), work(3), wait({0})}), 4, 4, 0, 2.5);
  expect(predict_step({work(1), start(0, 2.5)}), 3.5, 1, 0, 2.5);  // nobody waits for it
}

TEST(Prediction, CollectivesFollowEachOther) {
  expect(predict_step({start(0, 1), start(1, 2.5), wait({0, 1})}), 3.5, 0, 3.5, 3.5);
}

TEST(Prediction, WhatACollectiveTakesOfTheProcessorIsComputing) {
  const StepPrediction step = predict_step({start(0, 2, 1.5), work(1), wait({0})});
  expect(step, 2.5, 2.5, 0, 2);
  EXPECT_DOUBLE_EQ(step.kinds[static_cast<size_t>(WorkKind::kCollective)], 1.5);
}

TEST(Prediction, LoopsTakeAsLongAsTheirIterations) {
  const ScheduleLoop few{3, {work(1), start(0, 1), wait({0})}};
  expect(predict_step({few, work(1)}), 7, 4, 3, 3);
  // Beyond the iterations that are simulated each is like the last.
  const ScheduleLoop many{1000, few.body};
  const StepPrediction step = predict_step({many, work(1)});
  expect(step, 2001, 1001, 1000, 1000);
  EXPECT_DOUBLE_EQ(step.kinds[static_cast<size_t>(WorkKind::kProduct)], 1001);
}

}  // namespace
}  // namespace mtf
