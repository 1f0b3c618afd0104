// Tests train.recompute: auto: no other number of layers of a kind that fits is predicted to be faster.
#include "trainer/costs/recompute.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/trainer/chain_model.h"
#include "trainer/costs/prediction.h"
#include "trainer/costs/recomputable.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kBlocks = 6;

Session open_chain(std::vector<std::string> arguments = {}) {
  const std::vector<std::string> chain = chain_arguments(kBlocks);
  arguments.insert(arguments.begin(), chain.begin(), chain.end());
  Diagnostics diagnostics;
  Session session = open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

TrainStepOptions chain_options(const Session& session) {
  return train_step_options(session.config, session.layouts, 3);
}

RecomputeTrial chain_trial(const Session& session, const Recompute& recompute, int64_t microbatches = 1) {
  TrainStepOptions options = chain_options(session);
  options.recompute = recompute;
  options.microbatches = microbatches;
  const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
  const Program program = compile(session, *step.graph);
  Diagnostics diagnostics;
  const CostModel model = cost_model_of(session.config, session.layouts.mesh, false, diagnostics);
  const RunMemory need = memory_need(session, {&program}, memory_use(session, true, {}, {}));
  return {recompute,
          microbatches,
          predict_step(schedule_of(program, model)).seconds,
          {need.host.total(), {}},
          false};
}

RecomputeChoice recomputation_within(const Session& session, int64_t limit, bool chooses_microbatches = false,
                                     const std::optional<EarlierRecompute>& before = {}) {
  return choose_recompute(session, {.options = chain_options(session),
                                    .chooses_microbatches = chooses_microbatches,
                                    .use = memory_use(session, true, {}, {}),
                                    .limits = {{0, {{limit, "run.memory_limit"}, {}}}},
                                    .before = before,
                                    .compares_block = true});
}

Recompute first_layers(const std::string& layers, int64_t number) {
  if (number == 0) return RecomputeWord::kNone;
  return config::Named<int64_t>{{layers, number}};
}

/// The fastest of all numbers of layers of a kind that fit.
double fastest_of_one_kind(const Session& session, int64_t limit,
                           const std::vector<int64_t>& microbatches = {1}) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const int64_t count : microbatches) {
    for (const std::string layers : {"residual", "wide", "dense", "chain"}) {
      const int64_t all = layers == "dense" ? 2 * kBlocks + 2 : layers == "chain" ? 1 : kBlocks;
      for (int64_t number = 0; number <= all; ++number) {
        const RecomputeTrial trial = chain_trial(session, first_layers(layers, number), count);
        if (trial.memory.need <= limit) fastest = std::min(fastest, trial.seconds);
      }
    }
  }
  return fastest;
}

const std::vector<std::vector<std::string>> kRecomputeLayouts = {
    {},
    {"mesh=x:2", "layout=batch:x"},
    {"mesh=x:2;y:2", "layout=batch:x;hidden_even:y"},
    {"train.microbatches=2"},
};

TEST(RecomputeAuto, IsAsFastAsTheBestNumberOfLayersOfAnyKind) {
  for (const std::vector<std::string>& arguments : kRecomputeLayouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(arguments, " ")));
    const Session session = open_chain(arguments);
    const int64_t microbatches = session.config.train.microbatches.value.value_or(1);
    const RecomputeTrial none = chain_trial(session, RecomputeWord::kNone, microbatches),
                         all = chain_trial(session, first_layers("residual", kBlocks), microbatches);
    ASSERT_GT(none.memory.need, all.memory.need);
    for (const double share : {0.0, 0.3, 0.6, 0.9}) {
      const int64_t limit =
          all.memory.need +
          static_cast<int64_t>(share * static_cast<double>(none.memory.need - all.memory.need));
      const RecomputeChoice choice = recomputation_within(session, limit);
      const RecomputeTrial trial = chain_trial(session, choice.recompute, microbatches);
      EXPECT_LE(trial.memory.need, limit) << choice.reason;
      EXPECT_LE(trial.seconds, fastest_of_one_kind(session, limit, {microbatches}) * (1 + 1e-9))
          << choice.reason;
      EXPECT_THAT(choice.reason, StartsWith("train.recompute: auto is " + recompute_text(choice.recompute)));
      EXPECT_THAT(choice.reason, HasSubstr("(run.memory_limit); none takes "));
      EXPECT_LE(choice.trials.size(), 20u);
    }
  }
}

TEST(RecomputeAuto, IsNoneWhereThatFits) {
  const Session session = open_chain();
  const RecomputeTrial none = chain_trial(session, RecomputeWord::kNone);
  const RecomputeChoice choice = recomputation_within(session, none.memory.need);
  EXPECT_EQ(choice.recompute, Recompute(RecomputeWord::kNone));
  EXPECT_DOUBLE_EQ(choice.trials.front().seconds, none.seconds);
  EXPECT_EQ(choice.trials.size(), 2u) << "none, and block for comparison";
}

TEST(RecomputeAuto, TakesWhatNeedsLeastWhereNothingFits) {
  const Session session = open_chain();
  const RecomputeChoice choice = recomputation_within(session, 1000);
  EXPECT_THAT(choice.reason, HasSubstr("nothing fits, and this needs least"));
  const int64_t need = chain_trial(session, choice.recompute).memory.need;
  EXPECT_LE(need, chain_trial(session, first_layers("residual", kBlocks)).memory.need);
  for (const RecomputeTrial& trial : choice.trials) EXPECT_GE(trial.memory.need, need);
}

TEST(RecomputeAuto, TrialsAreACurveOfTimeAndMemory) {
  const Session session = open_chain();
  const int64_t none = chain_trial(session, RecomputeWord::kNone).memory.need,
                all = chain_trial(session, first_layers("residual", kBlocks)).memory.need;
  const RecomputeChoice choice = recomputation_within(session, (none + all) / 2);
  ASSERT_GE(choice.trials.size(), 3u);
  for (size_t i = 1; i < choice.trials.size(); ++i)
    EXPECT_LE(choice.trials[i - 1].seconds, choice.trials[i].seconds);
  EXPECT_EQ(choice.trials.front().recompute, Recompute(RecomputeWord::kNone));
}

TEST(RecomputeAuto, MicrobatchesAreChosenWithIt) {
  const Session session = open_chain({"train.microbatches=auto"});
  const int64_t none = chain_trial(session, RecomputeWord::kNone).memory.need,
                four = chain_trial(session, RecomputeWord::kNone, 4).memory.need;
  for (const int64_t limit : {(none + four) / 2, four, none}) {
    std::vector<int64_t> counts = {1};  // up to the fewest that fit without recomputation
    while (chain_trial(session, RecomputeWord::kNone, counts.back()).memory.need > limit)
      counts.push_back(counts.back() + 1);
    const RecomputeChoice choice = recomputation_within(session, limit, true);
    const RecomputeTrial trial = chain_trial(session, choice.recompute, choice.microbatches);
    EXPECT_LE(trial.memory.need, limit) << choice.reason;
    EXPECT_LE(trial.seconds, fastest_of_one_kind(session, limit, counts) * (1 + 1e-9)) << choice.reason;
    EXPECT_THAT(choice.reason,
                HasSubstr(fmt::format(", train.microbatches: auto is {}: ", choice.microbatches)));
  }
}

TEST(RecomputeAuto, ARunThatContinuesKeepsItsChoiceWhileThatFits) {
  const Session session = open_chain();
  const Recompute three = first_layers("residual", 3);
  const RecomputeTrial trial = chain_trial(session, three);
  const RecomputeChoice kept =
      recomputation_within(session, trial.memory.need, false, EarlierRecompute{three, 1});
  EXPECT_EQ(kept.recompute, three);
  EXPECT_EQ(kept.reason, "train.recompute: auto is {residual: 3}: as in the run so far");
  EXPECT_NE(recomputation_within(session, trial.memory.need - 1, false, EarlierRecompute{three, 1}).recompute,
            three);
  // What the model no longer has.
  EXPECT_THAT(
      recomputation_within(session, trial.memory.need, false, EarlierRecompute{first_layers("unheard", 1), 1})
          .reason,
      Not(HasSubstr("so far")));
}

TEST(Recompute, NumbersAndListsReplaceTheWordBeforeThem) {
  const auto given = [](const std::string& argument) {
    return open_chain({argument}).config.train.recompute;  // open_chain() has auto
  };
  EXPECT_EQ(given("train.recompute={residual: 2, wide: 0}"),
            Recompute(config::Named<int64_t>{{"residual", 2}, {"wide", 0}}));
  EXPECT_EQ(given("train.recompute.residual=2"), first_layers("residual", 2));
  EXPECT_EQ(given("train.recompute=[wide, chain/000/]"),
            Recompute(std::vector<std::string>{"wide", "chain/000/"}));
  EXPECT_EQ(given("train.recompute=wide"), Recompute(std::vector<std::string>{"wide"}));
  EXPECT_EQ(given("train.recompute=none"), Recompute(RecomputeWord::kNone));
}

TEST(RecomputableLayers, AreTheKindsWhoseInsideTheBackwardPassReads) {
  const Session session = open_chain();
  const TrainStep step =
      build_train_step(*session.model, session.train_data->features(), chain_options(session));
  const Program program = compile(session, *step.graph);
  Diagnostics diagnostics;
  const CostModel model = cost_model_of(session.config, session.layouts.mesh, false, diagnostics);
  std::vector<std::string> names;
  for (const RecomputableLayers& kind :
       recomputable_layers(step.layers, program, schedule_of(program, model))) {
    names.push_back(kind.name);
    EXPECT_GT(kind.saved, 0) << kind.name;
    EXPECT_GT(kind.seconds, 0) << kind.name;
    EXPECT_TRUE(kind.name != "residual" || kind.count == kBlocks);
  }
  EXPECT_THAT(names, Contains("residual"));
  EXPECT_THAT(names, Not(Contains("unit"))) << "the same layers as residual";
  EXPECT_THAT(names, Not(Contains("last"))) << "it keeps only its operand, which is not its own";
}

/// The host memory that each process of the run needs.
std::vector<int64_t> needs_of_processes(const Session& session, const Program& program) {
  MemoryUse use = memory_use(session, true, {}, {});
  std::vector<int64_t> bytes;
  for (int process = 0; process < use.hosting.processes; ++process) {
    use.hosting.process = process;
    bytes.push_back(memory_need(session, {&program}, use).host.total());
  }
  return bytes;
}

TEST(RecomputeAuto, FitsIntoTheProcessesOfAllStages) {
  const Session session = open_chain({"mesh=stages:2", "layout=layers:stages", "train.microbatches=4",
                                      "run.mode=explain", "cluster.processes=2"});
  TrainStepOptions options = chain_options(session);
  MemoryUse use = memory_use(session, true, {}, {});
  const auto needs = [&](const Recompute& recompute) {
    options.recompute = recompute;
    const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
    return needs_of_processes(session, compile(session, *step.graph));
  };
  const auto none = needs(RecomputeWord::kNone);
  ASSERT_NE(none[0], none[1]);
  const int64_t limit = std::ranges::max(none) - 1;
  for (const int process : {0, 1}) {  // whichever decides
    use.hosting.process = process;
    const RecomputeChoice choice =
        choose_recompute(session, {.options = options,
                                   .use = use,
                                   .limits = planned_limits(session, {{limit, "run.memory_limit"}, {}})});
    EXPECT_LE(std::ranges::max(needs(choice.recompute)), limit) << choice.reason;
  }
}

TEST(RecomputeAuto, ComparesEachProcessWithItsOwnLimit) {
  const Session session =
      open_chain({"mesh=data:4", "layout=batch:data", "run.mode=explain", "cluster.processes=4"});
  const TrainStepOptions options = chain_options(session);
  const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
  const Program program = compile(session, *step.graph);
  const MemoryUse use = memory_use(session, true, {}, {});
  const std::vector<int64_t> needs = needs_of_processes(session, program);
  ASSERT_GT(needs[0], needs[2]) << "process 0 saves the variables";
  const auto choose = [&](const std::vector<int64_t>& bytes) {
    ProcessLimits limits;
    for (int process = 0; process < 4; ++process)
      limits[process].host = {bytes[static_cast<size_t>(process)], fmt::format("of {}", process)};
    return choose_recompute(session, {.options = options, .use = use, .limits = limits});
  };
  EXPECT_EQ(choose(needs).recompute, Recompute(RecomputeWord::kNone))
      << "all fit, each with nothing to spare";
  for (const size_t process : {0, 2}) {
    std::vector<int64_t> bytes = needs;
    --bytes[process];
    const RecomputeChoice choice = choose(bytes);
    EXPECT_NE(choice.recompute, Recompute(RecomputeWord::kNone));
    EXPECT_THAT(choice.reason, HasSubstr("(of "));
  }
}

}  // namespace
}  // namespace mtf::testing
