// Tests simulated long runs: steps whose times a reader can add up, and runs against formulas.
#include "trainer/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "trainer/simulate/process_classes.h"

namespace mtf {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;

ScheduledWork work(double seconds, Phase phase = Phase::kForward) {
  return {NamedScope("layer", {}), phase, WorkKind::kProduct, 0, 0, seconds};
}
ScheduledStart start(int64_t message, double seconds, AxisMask axes = axis_bit(0), double processor = 0) {
  return {message, "all_reduce", axes, NamedScope("layer", {}), Phase::kBackward, 0, seconds, processor};
}
ScheduledWait wait(std::vector<int64_t> messages) { return {std::move(messages)}; }

/// Each position has a process of its own.
HostedMesh processes(const char* mesh) {
  const Mesh positions(Shape::parse(mesh));
  return {positions, {static_cast<int>(positions.size()), 0}};
}

void expect(const ProcessTimes& times, int64_t count, double computing, double waiting) {
  EXPECT_EQ(times.count, count);
  EXPECT_DOUBLE_EQ(times.computing, computing);
  EXPECT_DOUBLE_EQ(times.waiting, waiting);
}

TEST(ProcessClasses, OneForEachCombinationOfDisturbedCoordinates) {
  const ProcessClasses classes(processes("rows:128;cols:64"), {5 * 64 + 7});
  ASSERT_EQ(classes.size(), 4);
  EXPECT_EQ(classes.of(5 * 64 + 7), 0);
  EXPECT_EQ(classes.count(0), 1);
  EXPECT_EQ(classes.count(1), 63);        // in its row
  EXPECT_EQ(classes.count(2), 127);       // in its column
  EXPECT_EQ(classes.count(3), 63 * 127);  // the others
  const AxisMask rows = axis_bit(0), cols = axis_bit(1);
  EXPECT_EQ(classes.group(0, cols), classes.group(1, cols));
  EXPECT_NE(classes.group(0, cols), classes.group(2, cols));
  EXPECT_EQ(classes.group(0, rows), classes.group(2, rows));
  EXPECT_EQ(classes.groups(rows | cols), 1);
}

TEST(ProcessClasses, ProcessesHostBlocksOfPositions) {
  // 8 processes of 4 positions: each has half of a row.
  const ProcessClasses classes(HostedMesh(Mesh(Shape::parse("rows:4;cols:8")), {8, 0}), {3});
  ASSERT_EQ(classes.size(), 4);
  EXPECT_EQ(classes.count(classes.of(3)), 1);
  EXPECT_EQ(classes.group(classes.of(3), axis_bit(1)), classes.group(classes.of(3) ^ 1, axis_bit(1)));
  // Positions 0-5, 6-11, ... of rows of 4 form no blocks: all meet.
  const ProcessClasses all(HostedMesh(Mesh(Shape::parse("rows:6;cols:4")), {4, 0}), {2});
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all.group(0, axis_bit(1)), all.group(1, axis_bit(1)));
}

TEST(DisturbedStep, IsThatOfThePredictionWhereNothingIsSlow) {
  const std::vector<ScheduleItem> schedule{work(1),    start(0, 2.5),
                                           work(1),    start(1, 1, axis_bit(1), 0.25),
                                           wait({0}),  ScheduleLoop{100, {work(0.5), start(2, 1), wait({2})}},
                                           work(1),    wait({1}),
                                           start(3, 4)};
  const DisturbedStep step = disturbed_step(schedule, {}, processes("a:4;b:2"), {}, 0.5);
  const StepPrediction predicted = predict_step(schedule, 0.5);
  EXPECT_DOUBLE_EQ(step.seconds, predicted.seconds);
  expect(step.others, 8, predicted.computing, predicted.waiting);
  EXPECT_DOUBLE_EQ(step.others.sending, predicted.sending);
}

/// What the processes of a stage do.
ScheduledWork at_stage(int stage, ScheduledWork work) {
  work.lane = stage;
  return work;
}
/// A message over the first mesh dimension.
ScheduledStart send(int64_t message, double seconds, int from, int to) {
  ScheduledStart sent = start(message, seconds);
  sent.lane = from;
  sent.to = {to};
  return sent;
}

TEST(DisturbedStep, StagesWaitForWhatOthersSendThem) {
  std::vector<ScheduleItem> schedule{
      at_stage(0, work(1)), send(0, 0.5, 0, 1), at_stage(0, work(1)), wait({0}), at_stage(1, work(2)),
      send(1, 0.5, 1, 0),   wait({1}),          at_stage(0, work(1))};
  const HostedMesh hosted = processes("stages:2;data:4");
  const DisturbedStep step = disturbed_step(schedule, {}, hosted, {}, 0.5, 0);
  const StepPrediction predicted = predict_step(schedule, 0.5);
  EXPECT_DOUBLE_EQ(step.seconds, predicted.seconds);
  EXPECT_DOUBLE_EQ(step.seconds, 0.5 + 1 + 0.5 + 2 + 0.5 + 1);
  expect(step.others, 8, predicted.computing, predicted.waiting);
  EXPECT_DOUBLE_EQ(step.others.sending, predicted.sending);
  // A straggler delays those that it sends to, and with a sum over `data` all of its stage.
  const DisturbedProcesses last{.stragglers = {7}, .slowdown = 2};
  EXPECT_DOUBLE_EQ(disturbed_step(schedule, {}, hosted, last, 0, 0).seconds, 1 + 0.5 + 4 + 0.5 + 1);
  schedule.emplace_back(start(2, 1, axis_bit(1)));
  std::get<ScheduledStart>(schedule.back()).lane = 0;
  const DisturbedStep summed = disturbed_step(schedule, {}, hosted, last, 0, 0);
  EXPECT_DOUBLE_EQ(summed.seconds, 8);
  EXPECT_EQ(summed.others.count, 7);
}

TEST(DisturbedStep, AStragglerHoldsUpDataParallelism) {
  const std::vector<ScheduleItem> schedule{work(4), start(0, 1), wait({0}), work(1)};
  EXPECT_DOUBLE_EQ(disturbed_step(schedule, {}, processes("all:512"), {}).seconds, 6);
  const DisturbedStep step =
      disturbed_step(schedule, {}, processes("all:512"), {.stragglers = {17}, .slowdown = 1.5});
  EXPECT_DOUBLE_EQ(step.seconds, 8.5);
  expect(step.stragglers, 1, 7.5, 1);
  expect(step.others, 511, 5, 3);
  // Others make no difference.
  EXPECT_DOUBLE_EQ(
      disturbed_step(schedule, {}, processes("all:512"), {.stragglers = {17, 3}, .slowdown = 1.5}).seconds,
      8.5);
}

TEST(DisturbedStep, EachGroupWaitsForItsOwnStraggler) {
  // Over `b` only the row of the straggler is late; over `a` all are.
  const AxisMask a = axis_bit(0), b = axis_bit(1);
  const std::vector<ScheduleItem> rows{work(2), start(0, 1, b), wait({0})};
  const DisturbedProcesses disturbed{.stragglers = {0}, .slowdown = 2};
  const DisturbedStep step = disturbed_step(rows, {}, processes("a:4;b:2"), disturbed);
  EXPECT_DOUBLE_EQ(step.seconds, 5);
  expect(step.stragglers, 1, 4, 1);
  expect(step.others, 7, 2, (3 + 6 * 1) / 7.0);  // one in its row, six elsewhere
  const std::vector<ScheduleItem> both{work(2), start(0, 1, b), wait({0}), start(1, 1, a), wait({1})};
  expect(disturbed_step(both, {}, processes("a:4;b:2"), disturbed).others, 7, 2, 4);
}

TEST(DisturbedStep, CommunicationBesideComputationHidesASlowLink) {
  const std::vector<ScheduleItem> schedule{work(1), start(0, 1), work(3), wait({0})};
  const SlowCollectives slow = collectives_of({start(0, 4)});
  EXPECT_DOUBLE_EQ(disturbed_step(schedule, slow, processes("all:8"), {}).seconds, 4);
  const DisturbedStep step = disturbed_step(schedule, slow, processes("all:8"), {.slow_link = 5});
  EXPECT_DOUBLE_EQ(step.seconds, 5);
  expect(step.slow_link, 1, 4, 1);
  expect(step.others, 7, 4, 1);
  EXPECT_DOUBLE_EQ(step.others.sending, 4);
}

TEST(DisturbedStep, ASlowLinkConcernsItsGroups) {
  const std::vector<ScheduleItem> schedule{start(0, 1, axis_bit(1)), wait({0})};
  const SlowCollectives slow = collectives_of({ScheduleLoop{2, {start(0, 3, axis_bit(1))}}});
  const DisturbedStep step = disturbed_step(schedule, slow, processes("a:4;b:2"), {.slow_link = 5});
  EXPECT_DOUBLE_EQ(step.seconds, 3);
  EXPECT_DOUBLE_EQ(step.others.sending, (3 + 6 * 1) / 7.0);
}

TEST(DisturbedStep, LoopsOfAStragglerTakeLonger) {
  const std::vector<ScheduleItem> schedule{ScheduleLoop{1000, {work(1)}}, start(0, 1), wait({0})};
  const DisturbedStep step =
      disturbed_step(schedule, {}, processes("all:4"), {.stragglers = {2}, .slowdown = 1.25});
  EXPECT_DOUBLE_EQ(step.seconds, 1251);
  expect(step.others, 3, 1000, 251);
}

TEST(DisturbedStep, KnowsWhatComesBeforeTheUpdate) {
  const std::vector<ScheduleItem> schedule{work(1), start(0, 2), wait({0}), work(1, Phase::kUpdate), work(9)};
  EXPECT_DOUBLE_EQ(seconds_before_update(schedule, 0.5), 3.5);
}

LongRun run_of(int64_t steps, int64_t interval, double pause) {
  LongRun run;
  run.steps = steps;
  run.step = 2;
  run.interval = interval;
  run.pause = pause;
  return run;
}

TEST(LongRun, WithoutFailuresCheckpointsAreAllThatIsLost) {
  const RunOutcome outcome = simulate_run(run_of(1000, 10, 3), 1, 0);
  EXPECT_TRUE(outcome.is_complete);
  EXPECT_DOUBLE_EQ(outcome.goodput(), 10 * 2 / (10 * 2 + 3.0));
  EXPECT_DOUBLE_EQ(outcome.seconds(), 2300);
  EXPECT_DOUBLE_EQ(outcome.lost, 0);
  LongRun waits = run_of(1000, 10, 3);
  waits.background = false;
  waits.write = 17;
  EXPECT_DOUBLE_EQ(simulate_run(waits, 1, 0).goodput(), 10 * 2 / (10 * 2 + 20.0));
  // The last interval is shorter.
  EXPECT_DOUBLE_EQ(simulate_run(run_of(25, 10, 3), 1, 0).seconds(), 50 + 3 * 3);
}

TEST(LongRun, WritingInTheBackgroundCostsNothingUpToTheNextCheckpoint) {
  LongRun run = run_of(100, 10, 1);
  run.write = 19;                                                      // 20 s until the next one
  EXPECT_DOUBLE_EQ(simulate_run(run, 1, 0).seconds(), 200 + 10 + 19);  // the last one is waited for
  run.write = 26;  // each of the nine others waits for 6 s
  EXPECT_DOUBLE_EQ(simulate_run(run, 1, 0).seconds(), 200 + 10 + 9 * 6 + 26);
}

TEST(LongRun, TakesTheTimeThatIsExpectedWithExponentialFailures) {
  // E = n exp(R / M) M (exp((k s + C) / M) - 1) for n checkpoints, where restarts of R fail, too (Daly 2006).
  LongRun run = run_of(2000, 20, 0);
  run.background = false;
  run.pause = 1;
  run.write = 4;
  run.restart = 30;
  run.mean_time_between_failures = 150;
  const double m = run.mean_time_between_failures;
  const double expected = 100 * std::exp(30 / m) * m * std::expm1((20 * 2 + 5) / m);
  const RunStatistics runs = simulate_runs(run, {.replicas = 400, .seed = 3});
  EXPECT_TRUE(runs.are_complete);
  const double error = (runs.seconds.high - runs.seconds.low) / (2 * 1.645) / std::sqrt(400.0);
  EXPECT_NEAR(runs.seconds.mean, expected, 4 * error);
  EXPECT_LT(error, 0.01 * expected);
  EXPECT_NEAR(runs.failures, expected / m, 0.02 * expected / m);
  EXPECT_DOUBLE_EQ(runs.mean.useful, 4000);
  EXPECT_NEAR(runs.mean.seconds(), runs.seconds.mean, 1e-6 * expected);
  EXPECT_LT(runs.goodput.low, runs.goodput.mean);
  EXPECT_GT(runs.goodput.high, runs.goodput.mean);
}

TEST(LongRun, SharesOfTheWallTimeAddUp) {
  LongRun run = run_of(1000, 100, 1);
  run.restart = 5000;
  run.mean_time_between_failures = 20'000;  // a few runs have a failure
  const RunStatistics runs = simulate_runs(run, {.replicas = 100, .seed = 1});
  EXPECT_NEAR(runs.goodput.mean, runs.mean.useful / runs.mean.seconds(), 1e-12);
  EXPECT_NEAR(
      runs.goodput.mean + (runs.mean.lost + runs.mean.saving + runs.mean.restarting) / runs.seconds.mean, 1,
      1e-9);
  EXPECT_GT(runs.goodput.high, 0.99);
}

TEST(LongRun, RepeatsWithTheSameSeed) {
  LongRun run = run_of(1000, 20, 1);
  run.mean_time_between_failures = 300;
  run.restart = 10;
  EXPECT_EQ(simulate_run(run, 1, 5).seconds(), simulate_run(run, 1, 5).seconds());
  EXPECT_NE(simulate_run(run, 1, 5).seconds(), simulate_run(run, 1, 6).seconds());
  EXPECT_NE(simulate_run(run, 1, 5).seconds(), simulate_run(run, 2, 5).seconds());
}

TEST(LongRun, AFailureWhileACheckpointIsWrittenGoesBackToTheOneBefore) {
  LongRun run = run_of(10'000, 50, 0);
  run.mean_time_between_failures = 2000;
  const double at_once = simulate_runs(run, {.replicas = 100, .seed = 1}).mean.lost;
  run.write = 90;  // of the 100 s of an interval
  const RunStatistics later = simulate_runs(run, {.replicas = 100, .seed = 1});
  // Each failure undoes 50 s on average, and 90 s more.
  EXPECT_NEAR(at_once / 20'000, 50 / 2000.0, 0.006);
  EXPECT_NEAR(later.mean.lost / later.failures, 140, 10);
}

TEST(LongRun, TheBestIntervalIsNearThatOfYoungAndDaly) {
  for (const double pause : {0.5, 5.0, 20.0}) {
    LongRun run = run_of(100'000, 1, pause);
    run.restart = 60;
    run.mean_time_between_failures = 5000;
    const Replicas replicas{.replicas = 50, .seed = 1};
    const double formula = std::sqrt(2 * pause * 5000);
    EXPECT_DOUBLE_EQ(young_daly_seconds(run), formula);
    run.interval = best_interval(run, replicas);
    EXPECT_NEAR(std::log2(static_cast<double>(run.interval) * run.step / formula), 0, 0.5) << pause;
    const double best = simulate_runs(run, replicas).seconds.mean;
    run.interval = static_cast<int64_t>(formula / run.step);
    const double by_formula = simulate_runs(run, replicas).seconds.mean;
    EXPECT_LE(best, 1.001 * by_formula);
    EXPECT_NEAR(best / by_formula, 1, 0.01);
    run.interval *= 8;
    EXPECT_GT(simulate_runs(run, replicas).seconds.mean, 1.02 * best);
  }
}

TEST(LongRun, TheBestIntervalIsNotShorterThanWriting) {
  LongRun run = run_of(10'000, 1, 0.001);
  run.mean_time_between_failures = 5000;
  run.write = 100;
  EXPECT_NEAR(static_cast<double>(best_interval(run, {.replicas = 50, .seed = 1})), 50, 5);
  run.mean_time_between_failures = std::numeric_limits<double>::infinity();
  EXPECT_EQ(best_interval(run, {}), 10'000);
}

TEST(LongRun, IsGivenUpWhereItMakesNoProgress) {
  LongRun run = run_of(1000, 1000, 10);
  run.restart = 100;
  run.mean_time_between_failures = 50;
  const RunStatistics runs = simulate_runs(run, {.replicas = 100, .seed = 1});
  EXPECT_FALSE(runs.are_complete);
  EXPECT_DOUBLE_EQ(runs.goodput.mean, 0);
}

// Two machines of 8 GPUs, which need not be there.
Session open(std::vector<std::string> arguments, const std::string& model = "toy") {
  const std::vector<std::string> plan{
      "run.mode=explain",
      "run.model_dir=never_written",
      "mesh=all:16",
      "cluster.processes=16",
      "layout=batch:all",
      "train.batch_size=512",
      "train.steps=100000",
      "checkpoint.every=500",
      "hardware={device: {kind: cuda, memory: 80GB, flops: 1e13, bandwidth: 1e12}, "
      "links: [{name: inner, processes: 8, bandwidth: 1e11}, {name: outer, bandwidth: 1e9}]}"};
  arguments.insert(arguments.begin(), plan.begin(), plan.end());
  Diagnostics diagnostics;
  Session session =
      open_session({MTF_SOURCE_DIR "/configs/models/" + model + ".yaml"}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

SimulatedRun simulated(const std::vector<std::string>& arguments, const std::string& model = "toy") {
  const Session session = open(arguments, model);
  Diagnostics diagnostics;
  const Explanation explanation = make_explanation(session, diagnostics);
  std::optional<SimulatedRun> result = simulate(session, explanation, diagnostics);
  diagnostics.throw_if_errors();
  return std::move(*result);
}

std::string error_of(const std::vector<std::string>& arguments, const std::string& model = "toy") {
  try {
    simulated(arguments, model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Simulate, KnowsTheRunFromItsExplanation) {
  const SimulatedRun run =
      simulated({"simulate={mean_time_between_failures: {machine: 100h}, restart: 5min, checkpoint: "
                 "{bandwidth: 1e6}}"});
  EXPECT_EQ(run.processes, 16);
  EXPECT_EQ(run.machines, 2);
  EXPECT_EQ(run.run.steps, 100'000);
  EXPECT_EQ(run.run.interval, 500);
  EXPECT_DOUBLE_EQ(run.run.mean_time_between_failures, 50 * 3600);
  EXPECT_DOUBLE_EQ(run.step.seconds, run.step.undisturbed);
  EXPECT_DOUBLE_EQ(run.run.step, run.step.undisturbed);
  EXPECT_EQ(run.step.processes.others.count, 16);
  // All weights and slots are replicated: the first process writes them, and all read them.
  EXPECT_GT(run.checkpoint.bytes, 0);
  EXPECT_EQ(run.checkpoint.process_bytes, run.checkpoint.bytes);
  EXPECT_DOUBLE_EQ(run.checkpoint.write, static_cast<double>(run.checkpoint.bytes) / 1e6);
  EXPECT_DOUBLE_EQ(run.checkpoint.read, 16 * run.checkpoint.write);
  EXPECT_DOUBLE_EQ(run.run.restart, 300 + run.checkpoint.read);
  EXPECT_TRUE(run.runs.are_complete);
  ASSERT_TRUE(run.best);
  EXPECT_GE(run.best->runs.goodput.mean, 0.999 * run.runs.goodput.mean);
}

TEST(Simulate, SharesAreWrittenByTheirProcesses) {
  const SimulatedRun run = simulated({"parameter_layout=hidden_odd:all", "simulate={}"});
  EXPECT_EQ(run.checkpoint.process_bytes, run.checkpoint.bytes / 16);
  EXPECT_EQ(run.checkpoint.read_bytes, run.checkpoint.bytes / 16);
  EXPECT_FALSE(run.best);
  EXPECT_NEAR(run.runs.mean.lost, 0, 1e-6);
}

TEST(Simulate, AGpuCopiesTheCheckpointToItsHostAsFastAsTheLinkAllows) {
  const SimulatedRun slow = simulated({"hardware.device.host_link=25e9", "simulate={}"});
  const SimulatedRun fast = simulated({"hardware.device.host_link=50e9", "simulate={}"});
  EXPECT_DOUBLE_EQ(slow.checkpoint.copy, static_cast<double>(slow.checkpoint.bytes) / 25e9);
  EXPECT_DOUBLE_EQ(fast.checkpoint.copy, static_cast<double>(fast.checkpoint.bytes) / 50e9);
}

TEST(Simulate, StragglersAndSlowLinksMakeStepsLonger) {
  const double undisturbed = simulated({"simulate={}"}).step.seconds;
  const SimulatedRun stragglers = simulated({"simulate={stragglers: {share: 0.25, slowdown: 3}}"});
  EXPECT_EQ(stragglers.step.stragglers, 4);
  EXPECT_EQ(stragglers.step.processes.stragglers.count, 4);
  EXPECT_EQ(stragglers.step.processes.others.count, 12);
  EXPECT_GT(stragglers.step.seconds, undisturbed);
  EXPECT_GT(stragglers.step.processes.others.waiting, stragglers.step.processes.stragglers.waiting);
  const SimulatedRun at_times =
      simulated({"simulate={stragglers: {share: 0.25, slowdown: 3, probability: 0.1}}"});
  EXPECT_DOUBLE_EQ(at_times.step.slow_share, 1 - std::pow(0.9, 4));
  EXPECT_DOUBLE_EQ(at_times.step.seconds,
                   undisturbed + at_times.step.slow_share * (stragglers.step.seconds - undisturbed));
  const double outer = simulated({"simulate={slow_link: {bandwidth: 0.1}}"}).step.seconds;
  EXPECT_GT(outer, undisturbed);
  // The inner link has bandwidth to spare.
  const SimulatedRun inner = simulated({"simulate={slow_link: {link: inner, bandwidth: 0.5}}"});
  EXPECT_EQ(inner.step.slow_link, "inner");
  EXPECT_LT(inner.step.seconds, outer);
}

TEST(Simulate, IsAPartOfTheExplanation) {
  const Session session = open({"simulate={mean_time_between_failures: 10h, slow_link: {}}"});
  Diagnostics diagnostics;
  const Explanation explanation = make_explanation(session, diagnostics);
  const std::optional<ExplainedPart> part = simulated_part(session, explanation);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->key, "simulation");
  EXPECT_THAT(part->text, ::testing::HasSubstr("long run of 100,000 steps on 16 processes of 2 machines"));
  EXPECT_THAT(part->text, ::testing::HasSubstr("slow link: outer"));
  EXPECT_THAT(part->text, ::testing::HasSubstr("failures    one in 10 h 00 min"));
  EXPECT_EQ(part->document["mean_time_between_failures"], 36000);
  EXPECT_EQ(part->document["interval"], 500);
  EXPECT_GT(part->document["goodput"]["mean"], 0.5);
  EXPECT_FALSE(simulated_part(open({}), explanation));
}

TEST(Simulate, SaysWhatIsMissing) {
  EXPECT_THAT(error_of({"simulate={}", "hardware=null", "devices=cpu"}),
              ::testing::HasSubstr("`simulate` needs `hardware`"));
  EXPECT_THAT(error_of({"simulate={}", "train.steps=null"}), ::testing::HasSubstr("the length of the run"));
  EXPECT_THAT(error_of({"simulate={slow_link: {link: outre}}"}),
              ::testing::HasSubstr("did you mean `outer`?"));
  EXPECT_THAT(error_of({"simulate={slow_link: {}}", "mesh=all:1", "cluster.processes=1"}),
              ::testing::HasSubstr("the run has one process"));
  EXPECT_THAT(error_of({"simulate={mean_time_between_failures: {run: 1h, machine: 1h}}"}),
              ::testing::HasSubstr("machine"));
}

TEST(Simulate, KnowsNoEpochsOfTextsThatItDoesNotRead) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(
        arguments.begin(),
        {"vars={num_layers: 1, d_model: 16, d_ff: 32, num_heads: 2, d_kv: 8, max_length: 16}",
         "data={train: {type: text, path: none.txt}, vocabulary: {type: sentencepiece, size: 256}, "
         "sequence_length: 16}",
         "simulate={mean_time_between_failures: 10h}"});
    return error_of(arguments, "lm_base");
  };
  EXPECT_EQ(error({}), "");
  for (const char* steps : {"train.steps=null", "train.steps=100"})
    EXPECT_THAT(error({steps, "train.epochs=50"}), ::testing::HasSubstr("needs the length of the run"));
  EXPECT_THAT(error({"checkpoint.every=1epoch"}),
              ::testing::HasSubstr("`simulate` needs `checkpoint.every` in steps or as a time"));
}

}  // namespace
}  // namespace mtf
