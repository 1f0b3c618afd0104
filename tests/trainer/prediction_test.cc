// Tests the cost model of explain on schedules whose times a reader can add up.
#include "trainer/explain/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtf {
namespace {

/// 10 FLOPs, 100 bytes of memory and 20 or 5 bytes on the network in a second; a collective begins with half of one.
const MachineRates kRates{.flops = 10, .memory = 100, .links = {20, 5}, .latency = 0.5};

ScheduledWork work(double flops, double bytes = 0) { return {"layer", Phase::kForward, flops, bytes}; }
ScheduledStart start(int64_t message, double bytes, AxisMask axes = axis_bit(0)) {
  return {message, "all_reduce", axes, "layer", Phase::kForward, bytes};
}
ScheduledWait wait(std::vector<int64_t> messages) { return {std::move(messages)}; }

void expect(const StepPrediction& step, double seconds, double computing, double waiting, double sending) {
  EXPECT_DOUBLE_EQ(step.seconds, seconds);
  EXPECT_DOUBLE_EQ(step.computing, computing);
  EXPECT_DOUBLE_EQ(step.waiting, waiting);
  EXPECT_DOUBLE_EQ(step.sending, sending);
}

TEST(Prediction, ContractionsAndOtherOperationsHaveRatesOfTheirOwn) {
  expect(predict_step({work(30), work(0, 200)}, kRates), 5, 5, 0, 0);
}

TEST(Prediction, TheNetworkSendsWhileTheProcessorComputes) {
  // The message takes 0.5 s + 40 / 20 s from second 1 on.
  expect(predict_step({work(10), start(0, 40), work(10), wait({0}), work(10)}, kRates), 4.5, 3, 1.5, 2.5);
  expect(predict_step({work(10), start(0, 40), work(30), wait({0})}, kRates), 4, 4, 0, 2.5);
  expect(predict_step({work(10), start(0, 40)}, kRates), 3.5, 1, 0, 2.5);  // nobody waits for it
}

TEST(Prediction, CollectivesFollowEachOtherAtTheRateOfTheirSlowestMeshDimension) {
  expect(predict_step({start(0, 10), start(1, 10, axis_bit(0) | axis_bit(1)), wait({0, 1})}, kRates), 3.5, 0,
         3.5, 3.5);
}

TEST(Prediction, LoopsTakeAsLongAsTheirIterations) {
  const ScheduleLoop few{3, {work(10), start(0, 10), wait({0})}};
  expect(predict_step({few, work(10)}, kRates), 7, 4, 3, 3);
  // Beyond the iterations that are simulated each is like the last.
  const ScheduleLoop many{1000, few.body};
  expect(predict_step({many, work(10)}, kRates), 2001, 1001, 1000, 1000);
}

}  // namespace
}  // namespace mtf
