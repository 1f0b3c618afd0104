// Tests the search for layouts with the stages of a pipeline: it finds what trying all of them finds, and takes stages only
// where they win.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>

#include "trainer/costs/choose_microbatches.h"
#include "trainer/costs/measure_step.h"
#include "trainer/costs/prediction.h"
#include "trainer/memory/microbatches.h"
#include "trainer/plan/choose_layout.h"
#include "trainer/plan/rules.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFastLinks =
    "hardware={device: {flops: 1e10, bandwidth: 1e10}, links: [{bandwidth: 1e10, latency: 1e-6}]}";
constexpr const char* kSlowLinks =
    "hardware={device: {flops: 1e10, bandwidth: 1e10}, links: [{bandwidth: 5e6, latency: 1e-6}]}";

/// A language model of as many blocks, on as many processes.
Session open(int blocks, int processes, const char* hardware, std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      fmt::format("vars={{num_layers: {}, d_model: 32, d_ff: 64, num_heads: 4, d_kv: 8, max_length: 16}}",
                  blocks),
      "data={train: {type: text, path: none.txt}, vocabulary: {type: sentencepiece, size: 256}, "
      "sequence_length: 16}",
      "run.mode=explain",
      "train.batch_size=16",
      "run.model_dir=never_written",
      hardware,
      fmt::format("cluster.processes={}", processes)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Diagnostics diagnostics;
  Session session = open_session({MTF_SOURCE_DIR "/configs/models/lm_base.yaml"}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

bool has_stages(const PlannedLayout& planned) { return planned.found.layout.find(kLayers) != nullptr; }

double fastest(const LayoutPlan& plan) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const PlannedLayout& planned : plan.layouts) {
    if (planned.cost.fits) seconds = std::min(seconds, planned.cost.seconds);
  }
  return seconds;
}

/// Calls `visit` with all sets of dimensions that may be split over one mesh dimension.
void for_each_set(const SplittableDimensions& dimensions, size_t i, DimensionSet& set,
                  const std::function<void()>& visit) {
  if (i == dimensions.size()) return visit();
  for_each_set(dimensions, i + 1, set, visit);
  if ((dimensions[i].conflicts & set).any()) return;
  set.set(i);
  for_each_set(dimensions, i + 1, set, visit);
  set.reset(i);
}

/// The shortest step of all layouts over `data` and numbers of microbatches, with blocks on `stages`; all take at least what
/// the bounds say.
double shortest_of_all(const Session& session) {
  LayoutCosts costs(session, {});
  const SplittableDimensions dimensions(costs.graphs());
  const LayoutBounds bounds = costs.bounds(dimensions, {});
  const Mesh& mesh = session.layouts.mesh;
  const int64_t stages = mesh.size(0), data = mesh.size(1);
  Diagnostics diagnostics;
  const CostModel model = cost_model_of(session.config, mesh, false, diagnostics);
  double shortest = std::numeric_limits<double>::infinity();
  SplitChoice chosen(2);
  for_each_set(dimensions, 0, chosen[1], [&] {
    Layouts layouts = Layouts::make(mesh, rules_of(dimensions, chosen, {"stages", "data"}, {}));
    layouts.pipeline = pipeline_of(session.config, mesh);
    TrainStepOptions options = train_step_options(session.config, layouts, 3);
    options.update->runs_ahead = runs_ahead(session);
    Diagnostics problems;
    check_layouts(costs.step(), layouts, problems);
    if (problems.has_errors()) return;
    const double bound = bounds.seconds({{.size = stages, .rounds = session.config.pipeline.rounds},
                                         {.size = data, .chosen = chosen[1], .possible = chosen[1]}});
    for (const int64_t microbatches : microbatch_counts(layouts, options.batch_size)) {
      options.microbatches = microbatches;
      const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
      const Program program = compile(session, *step.graph, layouts);
      const double seconds = predict_step(schedule_of(program, model), model.hardware().device.step).seconds;
      EXPECT_LE(bound, seconds * (1 + 1e-9)) << microbatches;
      shortest = std::min(shortest, seconds);
    }
  });
  return shortest;
}

TEST(StagesSearch, FindsTheFastestLayoutAndMicrobatchesBesideGivenStages) {
  for (const std::string mesh : {"{stages: 2, data: 2}", "{stages: 4, data: 2}"}) {
    for (const std::string rounds : {"pipeline.rounds=1", "pipeline.rounds=2"}) {
      if (mesh == "{stages: 4, data: 2}" && rounds == "pipeline.rounds=2") continue;  // there are four blocks
      SCOPED_TRACE(mesh + " " + rounds);
      const Session session =
          open(4, mesh == "{stages: 2, data: 2}" ? 4 : 8, kFastLinks,
               {"mesh=" + mesh, "layout={layers: stages, auto: true}", "train.microbatches=auto", rounds});
      const LayoutPlan plan = plan_layout(session, {});
      ASSERT_FALSE(plan.layouts.empty());
      EXPECT_TRUE(std::ranges::all_of(plan.layouts, has_stages));
      EXPECT_TRUE(plan.search.is_proven());
      const double shortest = shortest_of_all(session);
      EXPECT_NEAR(fastest(plan), shortest, 1e-9 * shortest);
      EXPECT_LE(plan.layouts.front().cost.seconds, 1.01 * shortest);
      EXPECT_GT(plan.layouts.front().cost.microbatches, 1);
    }
  }
}

TEST(StagesSearch, ALayoutFitsIfItFitsIntoTheProcessOfTheLargestStage) {
  const Session session = open(4, 2, kFastLinks,
                               {"mesh={stages: 2}", "layout={layers: stages}", "train.microbatches=2",
                                "data.vocabulary.size=8192", "model.shared_embedding_and_softmax=false"});
  const TrainStepOptions options = train_step_options(session.config, session.layouts, 3);
  const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
  const Program program = compile(session, *step.graph);
  MemoryUse use = memory_use(session, true, {}, {});
  const auto need = [&](int process) {
    use.hosting.process = process;
    return memory_need(session, {&program}, use).host.total();
  };
  ASSERT_GT(need(1), need(0) + (1 << 20));  // the logits are in the last stage
  const auto fits = [&](int64_t limit) {
    StepMemory memory;
    memory.process = MemoryLimits{{limit, "run.memory_limit"}, {}};
    return LayoutCosts(session, memory)(session.layouts).fits;
  };
  EXPECT_FALSE(fits((need(0) + need(1)) / 2));
  EXPECT_TRUE(fits(need(1) + (1 << 20)));
}

TEST(StagesSearch, StagesWinWithSlowLinksWhereTheModelDoesNotFit) {
  const std::vector<std::string> limited = {"mesh=auto", "layout=auto", "train.microbatches=auto",
                                            "layout_search.memory_limit=400000"};
  const LayoutPlan plan = plan_layout(open(4, 4, kSlowLinks, limited), {.seconds = 3});
  const PlannedLayout& best = plan.layouts.front();
  EXPECT_TRUE(has_stages(best)) << to_string(plan, 5);
  ASSERT_TRUE(best.found.pipeline);
  EXPECT_THAT(to_string(plan, 5), HasSubstr("pipeline: {"));
  EXPECT_TRUE(best.cost.fits);
  for (const PlannedLayout& other : plan.layouts) {
    if (has_stages(other) || !other.cost.fits) continue;
    EXPECT_GT(other.cost.seconds, 1.01 * best.cost.seconds);
  }
}

TEST(StagesSearch, PlainLayoutsWinWhereStagesGainNothing) {
  const LayoutPlan plan =
      plan_layout(open(4, 4, kFastLinks, {"mesh=auto", "layout=auto", "train.microbatches=auto"}), {});
  EXPECT_FALSE(has_stages(plan.layouts.front())) << to_string(plan, 5);
  EXPECT_FALSE(plan.layouts.front().found.pipeline);
  EXPECT_TRUE(plan.search.is_proven());
  const LayoutPlan whole =
      plan_layout(open(4, 4, kFastLinks, {"mesh=auto", "layout=auto", "train.microbatches=1"}), {});
  EXPECT_TRUE(std::ranges::none_of(whole.layouts, has_stages))
      << "with one microbatch stages work one after the other";
}

/// Stages of a deep model: what few blocks say is close to what all of them say.
TEST(StagesSearch, StagesOfADeepModelCostAboutWhatTwoBlocksSay) {
  for (const std::string rounds : {"1", "2"}) {
    const Session session =
        open(16, 8, kFastLinks,
             {"mesh={stages: 4, data: 2}", "layout={layers: stages, batch: data, auto: true}",
              "train.microbatches=8", "pipeline.rounds=" + rounds});
    LayoutCosts costs(session, {});
    ASSERT_TRUE(costs.extrapolates());
    const LayoutCost about = costs(session.layouts), exact = costs.exactly(session.layouts, about);
    EXPECT_NEAR(about.seconds, exact.seconds, 0.2 * exact.seconds) << rounds;
    EXPECT_NEAR(static_cast<double>(about.bytes), static_cast<double>(exact.bytes),
                0.3 * static_cast<double>(exact.bytes))
        << rounds;
  }
}

/// What stages recompute is chosen with all of them, as few blocks do not tell exactly what they keep.
TEST(StagesSearch, StagesRecomputeNoMoreThanTheyNeed) {
  const Session session =
      open(16, 8, kFastLinks,
           {"mesh={stages: 4, data: 2}", "layout={layers: stages, batch: data, auto: true}",
            "train.microbatches=8", "train.recompute=auto"});
  const LayoutCost about{.is_legal = true, .recompute = RecomputeWord::kBlock, .microbatches = 8};
  LayoutCosts unlimited(session, {});
  const LayoutCost none = unlimited.exactly(session.layouts, about);
  EXPECT_EQ(none.recompute, Recompute(RecomputeWord::kNone)) << "it fits";
  const LayoutCost all = unlimited.exactly(session.layouts, about, [] { return true; });
  EXPECT_EQ(all.recompute, about.recompute) << "there is no time for more";
  EXPECT_GT(all.seconds, none.seconds);
  EXPECT_LT(all.bytes, none.bytes);
  LayoutCosts limited(session, {.position = none.bytes - 1, .process = {}, .source = "test"});
  const LayoutCost some = limited.exactly(session.layouts, about);
  EXPECT_TRUE(some.fits);
  EXPECT_LT(some.bytes, none.bytes);
  EXPECT_GT(some.seconds, none.seconds);
  EXPECT_LT(some.seconds, all.seconds);
}

/// Without `layout: auto`: train.microbatches: auto knows how long stages wait.
TEST(StagesSearch, MicrobatchesOfStagesAreTheFastest) {
  const Session session =
      open(4, 4, kFastLinks, {"mesh={stages: 4}", "layout={layers: stages}", "train.microbatches=auto"});
  TrainStepOptions options = train_step_options(session.config, session.layouts, 3);
  const MemoryUse use = memory_use(session, true, {}, {});
  const MicrobatchChoice choice = choose_microbatches(session, options, nullptr, use, {});
  EXPECT_GT(choice.count, 1) << choice.reason;
  EXPECT_THAT(choice.reason, HasSubstr("the stages take the shortest time"));
  StepMeasure measure(session, options, nullptr, use, planned_limits(session, memory_limits(session)));
  const double seconds = measure(RecomputeWord::kNone, choice.count).step.trial.seconds;
  for (const int64_t count : microbatch_counts(session.layouts, options.batch_size))
    EXPECT_LE(seconds, measure(RecomputeWord::kNone, count).step.trial.seconds) << count;
}

TEST(ChooseLayout, RefusesALimitIntoWhichNothingFits) {
  Session session = open(4, 2, kFastLinks,
                         {"mesh={data: 2}", "layout=auto", "train.microbatches=1",
                          "layout_search={memory_limit: 1000, time_limit: 1s}"});
  session.config.run.mode = RunMode::kTrain;
  Diagnostics diagnostics;
  try {
    choose_layout(session, diagnostics);
    ADD_FAILURE() << "a layout was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(
        error.what(),
        HasSubstr("fits into 1 KB of memory for a position (layout_search.memory_limit): the smallest "
                  "takes "));
  }
  // A plan says what there is.
  session.config.run.mode = RunMode::kExplain;
  const std::optional<LayoutPlan> plan = choose_layout(session, diagnostics);
  ASSERT_TRUE(plan);
  EXPECT_THAT(to_string(*plan, 1), HasSubstr("fits into layout_search.memory_limit"));
  ASSERT_EQ(diagnostics.warnings().size(), 1u);
  EXPECT_THAT(diagnostics.warnings()[0].message, HasSubstr("fits into 1 KB of memory for a position"));
  ASSERT_EQ(diagnostics.notes().size(), 1u);
  EXPECT_THAT(diagnostics.notes()[0], ::testing::Not(HasSubstr("none is more than")));
}

TEST(ChooseLayout, RefusesHardwareWithoutLinksBetweenProcesses) {
  Session session = open(4, 2, "hardware={device: {flops: 1e10, bandwidth: 1e10}, links: []}",
                         {"mesh={data: 2}", "layout=auto"});
  Diagnostics diagnostics;
  try {
    choose_layout(session, diagnostics);
    ADD_FAILURE() << "a layout was found for links that are free";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("`hardware` has no link between processes"));
  }
}

/// When the time is over only one layout is computed with all blocks, and what is evaluated ends before it is complete.
TEST(StagesSearch, ADeepModelsSearchEndsWithinItsTime) {
  const std::vector<std::string> found = {"mesh=auto",
                                          "layout=auto",
                                          "parameter_layout=auto",
                                          "train.microbatches=auto",
                                          "train.recompute=auto",
                                          "layout_search.memory_limit=400000"};
  const Session session = open(16, 16, kSlowLinks, found);
  const LayoutPlan none = plan_layout(session, {.seconds = 0});
  ASSERT_FALSE(none.layouts.empty());
  EXPECT_EQ(none.exact, 1);
  EXPECT_GT(none.search.gap, 0);
  EXPECT_FALSE(has_stages(none.layouts.front()));
  std::atomic<int> asked = 0;
  const LayoutPlan stopped = plan_layout(session, {.stop = [&] { return ++asked > 200; }});
  EXPECT_TRUE(stopped.is_stopped);
  EXPECT_EQ(stopped.exact, 1);
  EXPECT_LT(asked, 2000) << "it has gone on";
}

TEST(StagesSearch, OneLayoutHasACostWhenTheTimeIsOver) {
  const Session session = open(16, 4, kFastLinks, {"mesh={data: 4}", "layout=auto", "train.recompute=auto"});
  LayoutCosts costs(session, {});
  costs.stop_when([] { return true; });
  const Layouts first = Layouts::make(session.layouts.mesh, LayoutRules::parse("batch:data")),
                second = Layouts::make(session.layouts.mesh, LayoutRules::parse("d_ff:data"));
  EXPECT_EQ(costs.exact_seconds(first, {}), 0);
  const LayoutCost cost = costs(first);
  EXPECT_TRUE(cost.is_legal);
  EXPECT_GT(costs.exact_seconds(first, cost), 0);
  EXPECT_FALSE(costs(second).is_legal);
  EXPECT_TRUE(costs.exactly(first, cost).is_legal);
}

}  // namespace
}  // namespace mtf::testing
