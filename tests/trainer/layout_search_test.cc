// Tests the search for layouts: it finds what trying all of them finds, and its bounds are below all costs.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "engine/ops/unary.h"
#include "engine/runtime/memory_plan.h"
#include "tests/trainer/chain_model.h"
#include "trainer/costs/prediction.h"
#include "trainer/memory/microbatches.h"
#include "trainer/plan/choose_layout.h"
#include "trainer/plan/costs.h"
#include "trainer/plan/mesh_shapes.h"
#include "trainer/plan/plain.h"
#include "trainer/plan/rules.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using Sizes = std::vector<int64_t>;

const std::vector<std::string> kPerceptron = {"run.mode=explain", "train.batch_size=48",
                                              "run.model_dir=never_written", "vars.hidden_size=24",
                                              "vars.more_pairs=1"};
const std::vector<std::string> kTransformer = {
    "vars={num_layers: 2, d_model: 32, d_ff: 64, num_heads: 4, d_kv: 8, max_length: 16}",
    "data={train: {type: text, path: none.txt}, vocabulary: {type: sentencepiece, size: 256}, "
    "sequence_length: 16}",
    "run.mode=explain", "train.batch_size=16", "run.model_dir=never_written"};

Session open(const std::string& model, std::vector<std::string> arguments, const std::string& mesh,
             int processes) {
  arguments.push_back("mesh=" + mesh);
  // Slow links, so that layouts differ by what they send as well as by what they compute.
  arguments.push_back(
      "hardware={device: {flops: 1e10, bandwidth: 1e10}, links: [{bandwidth: 1e9, latency: 1e-6}]}");
  arguments.push_back("cluster.processes=" + std::to_string(processes));
  Diagnostics diagnostics;
  Session session =
      open_session({MTF_SOURCE_DIR "/configs/models/" + model + ".yaml"}, arguments, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

/// The search for the layout of a session's step on its mesh.
struct Searched {
  Searched(Session opened, StepMemory memory)
      : session(std::move(opened)),
        costs(session, std::move(memory)),
        dimensions(costs.graphs()),
        bounds(costs.bounds(dimensions, {})) {
    for (int axis = 0; axis < session.layouts.mesh.rank(); ++axis) {
      names.push_back(session.layouts.mesh.name(axis));
      sizes.push_back(session.layouts.mesh.size(axis));
    }
  }
  Layouts layouts(const SplitChoice& chosen) const {
    return Layouts::make(session.layouts.mesh, rules_of(dimensions, chosen, names, {}));
  }
  LayoutCost cost(const SplitChoice& chosen, double enough = std::numeric_limits<double>::infinity()) {
    return costs(layouts(chosen), enough);
  }
  LayoutSearchResult run(const LayoutSearchLimits& limits = {}) {
    const LayoutSearch search{
        .dimensions = dimensions,
        .meshes = {{sizes}},
        .bound = [this](const std::vector<SearchAxis>& axes) { return bounds.seconds(axes); },
        .evaluate = [this](const LayoutCandidate& c, double enough) { return cost(c.chosen, enough); }};
    return search.run(limits);
  }

  /// Calls `visit` with all choices for the dimensions that are left from (axis, i) on.
  void for_each_choice(SplitChoice& chosen, size_t axis, size_t i, const std::function<void()>& visit) const {
    if (axis == sizes.size()) return visit();
    if (i == dimensions.size()) return for_each_choice(chosen, axis + 1, 0, visit);
    for_each_choice(chosen, axis, i + 1, visit);
    if ((dimensions[i].conflicts & chosen[axis]).any()) return;
    chosen[axis].set(i);
    for_each_choice(chosen, axis, i + 1, visit);
    chosen[axis].reset(i);
  }

  Session session;
  LayoutCosts costs;
  SplittableDimensions dimensions;
  LayoutBounds bounds;
  std::vector<std::string> names;
  Sizes sizes;
};

/// The search finds the best one of all layouts, all of which cost at least what the bounds say.
void expect_best_of_all(Session session, StepMemory memory = {}) {
  const bool is_limited = memory.position.has_value();  // layouts that do not fit prove nothing about others
  Searched searched(std::move(session), std::move(memory));
  const LayoutSearchResult found = searched.run();
  ASSERT_FALSE(found.evaluated.empty());
  EXPECT_TRUE(found.is_proven());
  SplitChoice chosen(searched.sizes.size());
  std::optional<EvaluatedLayout> best;
  int64_t legal = 0;
  searched.for_each_choice(chosen, 0, 0, [&] {
    const EvaluatedLayout evaluated{{0, chosen}, searched.cost(chosen)};
    if (!evaluated.cost.is_legal) return;
    ++legal;
    if (!best || is_better(evaluated, *best)) best = evaluated;
    std::vector<SearchAxis> axes;
    for (size_t a = 0; a < chosen.size(); ++a) axes.push_back({searched.sizes[a], chosen[a], chosen[a]});
    EXPECT_LE(searched.bounds.seconds(axes), evaluated.cost.seconds * (1 + 1e-9));
    EXPECT_LE(searched.bounds.variable_bytes(axes), static_cast<double>(evaluated.cost.bytes));
  });
  EXPECT_DOUBLE_EQ(found.best().cost.seconds, best->cost.seconds);
  EXPECT_EQ(found.best().cost.fits, best->cost.fits);
  if (!is_limited) {
    EXPECT_LT(found.evaluations, legal) << "as many as there are layouts";
  }
  fmt::print("{} evaluated of {} layouts, {} nodes\n", found.evaluations, legal, found.nodes);
}

TEST(LayoutSearch, FindsTheBestLayoutOfAPerceptron) {
  expect_best_of_all(open("toy", kPerceptron, "all:8", 8));
  expect_best_of_all(open("toy", kPerceptron, "rows:2;cols:2", 4));
  expect_best_of_all(open("toy", kPerceptron, "rows:4;cols:2", 8));
}

TEST(LayoutSearch, FindsTheBestLayoutOfATransformer) {
  expect_best_of_all(open("lm_base", kTransformer, "all:8", 8));
  expect_best_of_all(open("lm_base", kTransformer, "rows:2;cols:2", 4));
}

TEST(LayoutSearch, FindsTheBestLayoutOfProcessesWithSeveralPositions) {
  expect_best_of_all(open("toy", kPerceptron, "rows:2;cols:4", 2));
  expect_best_of_all(open("toy", kPerceptron, "rows:4;cols:2", 1));
  expect_best_of_all(open("lm_base", kTransformer, "all:4", 2));
}

TEST(LayoutSearch, FindsTheBestLayoutThatFitsIntoMemory) {
  const LayoutCost free = Searched(open("lm_base", kTransformer, "all:4", 4), {}).run().best().cost;
  const StepMemory tight{.position = free.bytes - 1, .process = {}, .source = "test"};
  expect_best_of_all(open("lm_base", kTransformer, "all:4", 4), tight);
}

TEST(SplittableDimensions, AreThoseThatRulesCanName) {
  Graph graph;
  graph.set_output("y", relu(graph.input("x", {{"batch", 8}, {"_entries", 4}, {"auto", 4}})));
  const SplittableDimensions dimensions({&graph});
  ASSERT_EQ(dimensions.size(), 1u);
  EXPECT_EQ(dimensions[0].name, "batch");
}

/// A perceptron whose weights may lie split.
const std::vector<std::string> kWide = {"run.mode=explain",
                                        "run.model_dir=never_written",
                                        "vars={io_size: 512, hidden_size: 512}",
                                        "train.batch_size=48",
                                        "optimizer=adamw",
                                        "layout={batch: [rows, cols]}",
                                        "parameter_layout=auto"};

/// Links within four processes are fast: weights lie split over these alone, even if all processes together divide them.
TEST(LayoutSearch, SplitsVariablesOverSomeOfTheMeshDimensionsOfTheBatch) {
  for (const int rows : {3, 4}) {  // 3 does not divide the dimensions of the weights
    SCOPED_TRACE(rows);
    Session session = open("toy", kWide, fmt::format("rows:{};cols:4", rows), 4 * rows);
    session.config.machine->links = {
        LinkOptions{.name = {}, .processes = 4, .bandwidth = 1e10, .cached = {}, .latency = 1e-6},
        LinkOptions{.name = {}, .processes = {}, .bandwidth = 1e9, .cached = {}, .latency = 1e-5}};
    const LayoutPlan plan = plan_layout(session, {});
    ASSERT_FALSE(plan.layouts.empty());
    const std::vector<LayoutRule>& rules = plan.layouts.front().found.parameter_layout.rules();
    ASSERT_EQ(rules.size(), 1u) << to_string(plan, 9);
    EXPECT_THAT(rules[0].mesh_dimensions, ElementsAre("cols")) << to_string(plan, 9);
    EXPECT_TRUE(plan.search.is_proven());
    EXPECT_THAT(to_string(plan, 1), ::testing::HasSubstr("with any split of variables that was tried"));
  }
}

/// 3 divides no dimension of the weights: these fit only where they lie split over the outer mesh dimension alone.
TEST(LayoutSearch, TriesAllSplitsOfVariablesBeforeItSaysThatNoneFits) {
  const Session free = open("toy", kWide, "rows:4;cols:3", 12);
  const int64_t limit = LayoutCosts(free, {})(free.layouts).bytes * 9 / 10;
  std::vector<std::string> limited = kWide;
  limited.push_back(fmt::format("layout_search.memory_limit={}", limit));
  const LayoutPlan plan = plan_layout(open("toy", limited, "rows:4;cols:3", 12), {});
  const PlannedLayout& best = plan.layouts.front();
  EXPECT_TRUE(best.cost.fits) << to_string(plan, 9);
  const std::vector<LayoutRule>& rules = best.found.parameter_layout.rules();
  ASSERT_EQ(rules.size(), 1u) << to_string(plan, 9);
  EXPECT_THAT(rules[0].mesh_dimensions, ElementsAre("rows"));
  EXPECT_TRUE(plan.search.is_proven());
}

TEST(LayoutSearch, ComputesDifferentLayoutsOfADeepModelNotOneWithSeveralSplits) {
  std::vector<std::string> arguments = kTransformer;
  arguments[0] = "vars={num_layers: 8, d_model: 32, d_ff: 64, num_heads: 4, d_kv: 8, max_length: 16}";
  arguments.insert(arguments.end(), {"optimizer=adamw", "layout={batch: rows, auto: true}",
                                     "parameter_layout=auto", "optimizer_layout=auto"});
  const LayoutPlan plan = plan_layout(open("lm_base", arguments, "rows:2;cols:2", 4), {});
  std::map<std::string, int> times, times_exact;
  for (size_t i = 0; i < plan.layouts.size(); ++i) {
    const std::string layout = config::to_flow_yaml(config::dump(plan.layouts[i].found.layout));
    EXPECT_LE(++times[layout], 2) << to_string(plan, 9);
    if (static_cast<int64_t>(i) < plan.exact) ++times_exact[layout];
  }
  EXPECT_GT(times.size(), 1u);
  EXPECT_GT(times_exact.size(), 1u) << to_string(plan, 9);
}

TEST(AxesAtRest, AreAllSubsetsOfFewMeshDimensions) {
  using Axes = std::vector<int>;
  EXPECT_THAT(axes_at_rest({}), ElementsAre());
  EXPECT_THAT(axes_at_rest({0, 2}), ElementsAre(Axes{0, 2}, Axes{2}, Axes{0}));
  EXPECT_THAT(axes_at_rest({3}), ElementsAre(Axes{3}));
  EXPECT_EQ(axes_at_rest({0, 1, 2, 3}).size(), 15u);
  EXPECT_THAT(axes_at_rest({0, 1, 2, 3, 5}),
              ElementsAre(Axes{0, 1, 2, 3, 5}, Axes{5}, Axes{0}, Axes{1}, Axes{2}, Axes{3}, Axes{3, 5},
                          Axes{2, 3, 5}, Axes{1, 2, 3, 5}));
}

TEST(LayoutSearch, StopsWithTheBestSoFar) {
  Searched searched(open("lm_base", kTransformer, "rows:2;cols:2", 4), {});
  const LayoutSearchResult all = searched.run();
  int asked = 0;
  const LayoutSearchResult some = searched.run({.stop = [&] { return ++asked > 30; }});
  ASSERT_FALSE(some.evaluated.empty());
  EXPECT_LT(some.evaluations, all.evaluations);
  EXPECT_GT(some.gap, 0);
  EXPECT_LE(some.lower_bound, all.best().cost.seconds);
  EXPECT_EQ(searched.run({.seconds = 0}).evaluations, 1) << "that of the given rules";
}

TEST(LayoutSearch, GivenRulesStay) {
  Searched searched(open("toy", kPerceptron, "rows:2;cols:2", 4), {});
  const size_t io = searched.dimensions.find("io").value();
  LayoutSearch search{
      .dimensions = searched.dimensions,
      .meshes = {{searched.sizes}},
      .bound = [&](const std::vector<SearchAxis>& axes) { return searched.bounds.seconds(axes); },
      .evaluate = [&](const LayoutCandidate& c, double /*enough*/) { return searched.cost(c.chosen); },
      .fixed = SplitChoice(2)};
  search.fixed[1].set(io);
  search.decided.set(io);
  for (const EvaluatedLayout& evaluated : search.run({}).evaluated) {
    EXPECT_TRUE(evaluated.layout.chosen[1][io]);
    EXPECT_FALSE(evaluated.layout.chosen[0][io]);
  }
}

constexpr int kChainBlocks = 2;

/// A step with something recomputed in some microbatches, compiled by itself.
struct JointTrial {
  double seconds = 0;
  int64_t bytes = 0;
};

/// All choices of recomputation and microbatches for a layout.
std::vector<JointTrial> joint_trials(const Session& session, const Layouts& layouts,
                                     int64_t most_microbatches) {
  TrainStepOptions options = train_step_options(session.config, layouts, 3);
  options.update->runs_ahead = runs_ahead(session);
  Diagnostics diagnostics;
  const CostModel model = cost_model_of(session.config, layouts.mesh, false, diagnostics);
  std::vector<Recompute> choices{RecomputeWord::kNone};
  for (const auto& [kind, count] : config::Named<int64_t>{{"residual", kChainBlocks},
                                                          {"wide", kChainBlocks},
                                                          {"dense", 2 * kChainBlocks + 2},
                                                          {"chain", 1}}) {
    for (int64_t n = 1; n <= count; ++n) choices.emplace_back(config::Named<int64_t>{{kind, n}});
  }
  std::vector<JointTrial> trials;
  for (const int64_t microbatches : microbatch_counts(layouts, options.batch_size)) {
    if (microbatches > most_microbatches) break;
    for (const Recompute& recompute : choices) {
      options.microbatches = microbatches;
      options.recompute = recompute;
      const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
      check_layouts(*step.graph, layouts, diagnostics);
      if (diagnostics.has_errors()) return {};
      const Program program = compile(session, *step.graph, layouts);
      trials.push_back({predict_step(schedule_of(program, model), model.hardware().device.step).seconds,
                        plan_memory(program, false, hosting_of(session.config)).position().total()});
    }
  }
  return trials;
}

/// Layouts with recomputation and microbatches: the search finds what trying all of them finds, at three limits of memory.
/// Returns the best ones.
std::vector<LayoutCost> expect_best_of_all_trials(const std::string& microbatches,
                                                  int64_t most_microbatches) {
  std::vector<std::string> arguments = chain_arguments(kChainBlocks);
  arguments.insert(arguments.end(), {"run.mode=explain", "train.microbatches=" + microbatches});
  const auto opened = [&] { return open("toy", arguments, "all:2", 2); };
  Searched searched(opened(), {});
  const EvaluatedLayout plain = searched.run().best();
  EXPECT_EQ(plain.cost.recompute, Recompute(RecomputeWord::kNone)) << "memory is not limited";

  std::vector<JointTrial> trials;
  SplitChoice chosen(1);
  int64_t least = plain.cost.bytes;
  searched.for_each_choice(chosen, 0, 0, [&] {
    for (const JointTrial& trial :
         joint_trials(searched.session, searched.layouts(chosen), most_microbatches)) {
      EXPECT_LE(searched.bounds.seconds({{2, chosen[0], chosen[0]}}), trial.seconds * (1 + 1e-9));
      least = std::min(least, trial.bytes);
      trials.push_back(trial);
    }
  });
  std::vector<LayoutCost> best;
  for (const double share : {0.4, 0.6, 0.9}) {
    const int64_t limit = least + static_cast<int64_t>(share * static_cast<double>(plain.cost.bytes - least));
    double fastest = std::numeric_limits<double>::infinity();
    for (const JointTrial& trial : trials) {
      if (trial.bytes <= limit) fastest = std::min(fastest, trial.seconds);
    }
    best.push_back(
        Searched(opened(), {.position = limit, .process = {}, .source = "test"}).run().best().cost);
    EXPECT_TRUE(best.back().fits);
    EXPECT_LE(best.back().bytes, limit);
    EXPECT_LE(best.back().microbatches, most_microbatches) << "of which all are tried";
    EXPECT_NEAR(best.back().seconds, fastest, 1e-9 * fastest) << share;
  }
  return best;
}

TEST(LayoutSearch, FindsRecomputationTogetherWithTheLayout) {
  const std::vector<LayoutCost> best = expect_best_of_all_trials("1", 1);
  EXPECT_TRUE(std::ranges::any_of(
      best, [](const LayoutCost& cost) { return cost.recompute != Recompute(RecomputeWord::kNone); }));
}

TEST(LayoutSearch, FindsMicrobatchesTogetherWithTheLayout) {
  const std::vector<LayoutCost> best = expect_best_of_all_trials("auto", 6);
  EXPECT_TRUE(std::ranges::any_of(best, [](const LayoutCost& cost) { return cost.microbatches > 1; }));
}

/// A deep model: numbers of layers are carried on from two and three blocks, and exact with all of them.
TEST(LayoutSearch, RecomputesSomeLayersOfADeepModel) {
  std::vector<std::string> arguments = kTransformer;
  arguments[0] = "vars={num_layers: 8, d_model: 32, d_ff: 64, num_heads: 4, d_kv: 8, max_length: 16}";
  arguments.emplace_back("train.recompute=auto");
  const auto opened = [&] { return open("lm_base", arguments, "all:4", 4); };
  const auto laid_out = [](const Session& session) {
    return Layouts::make(session.layouts.mesh, LayoutRules::parse("batch:all"));
  };
  const Session session = opened();
  LayoutCosts free(session, {});
  ASSERT_TRUE(free.extrapolates());
  const LayoutCost none = free.exactly(laid_out(session), free(laid_out(session)));
  const int64_t limit = none.bytes * 9 / 10;
  LayoutCosts costs(session, {.position = limit, .process = {}, .source = "test"});
  const LayoutCost about = costs(laid_out(session)), exact = costs.exactly(laid_out(session), about);
  for (const LayoutCost& cost : {about, exact}) {
    EXPECT_TRUE(cost.fits);
    EXPECT_NE(cost.recompute, Recompute(RecomputeWord::kNone));
    EXPECT_GT(cost.seconds, none.seconds);
    EXPECT_LE(cost.bytes, limit);
  }
  EXPECT_NEAR(about.seconds, exact.seconds, 0.05 * exact.seconds);
  const LayoutCost slow = costs(laid_out(session), none.seconds / 2);
  EXPECT_FALSE(slow.fits) << "it is slower than others without recomputation";
}

EvaluatedLayout with_rules(const std::vector<size_t>& dimensions, double seconds, int64_t bytes = 0) {
  EvaluatedLayout evaluated{{0, SplitChoice(1)}, {.is_legal = true, .seconds = seconds, .bytes = bytes}};
  for (const size_t i : dimensions) evaluated.layout.chosen[0].set(i);
  return evaluated;
}
int64_t rules_in(const EvaluatedLayout& evaluated) { return static_cast<int64_t>(evaluated.layout.rules()); }

TEST(PlainLayouts, HaveTheFewestRulesAndTheLeastMemoryAmongThoseThatAreAboutAsFast) {
  std::vector<EvaluatedLayout> layouts{with_rules({0, 1, 2}, 1), with_rules({0, 1}, 1.005),
                                       with_rules({0}, 1.008, 10), with_rules({1}, 1.009, 5),
                                       with_rules({}, 1.02)};
  layouts.push_back(with_rules({}, 0.5));
  layouts.back().cost.fits = false;
  std::vector<EvaluatedLayout> some = layouts;
  put_plainest_first(layouts, std::ssize(layouts), rules_in);
  EXPECT_EQ(layouts.front().cost.seconds, 1.009);
  EXPECT_EQ(layouts[1].cost.seconds, 1) << "the others stay in order";
  put_plainest_first(some, 2, rules_in);
  EXPECT_EQ(some.front().cost.seconds, 1.005);
}

TEST(PlainLayouts, LeaveOutRulesThatAreNotWorthAPercent) {
  int64_t evaluations = 0;
  const EvaluateAll evaluate = [&](const std::vector<LayoutCandidate>& candidates) {
    std::vector<EvaluatedLayout> results;
    for (const LayoutCandidate& candidate : candidates) {
      const DimensionSet& set = candidate.chosen[0];
      const double seconds = 1 + (set[0] ? 0 : 0.05) + (set[1] ? 0 : 0.004) + (set[2] ? 0 : 0.003);
      results.push_back({candidate, {.is_legal = true, .seconds = seconds}});
      ++evaluations;
    }
    return results;
  };
  const auto never = [] { return false; };
  std::vector<EvaluatedLayout> layouts{with_rules({0, 1, 2}, 1)};
  leave_out_rules(layouts, {}, evaluate, rules_in, never);
  EXPECT_EQ(layouts.front().layout.chosen[0], DimensionSet(1)) << "rule 0 alone";
  EXPECT_DOUBLE_EQ(layouts.front().cost.seconds, 1.007);
  EXPECT_EQ(evaluations, 4) << "three with a rule less, and one of these with another one less";
  std::vector<EvaluatedLayout> fixed{with_rules({0, 1, 2}, 1)};
  leave_out_rules(fixed, DimensionSet(2), evaluate, rules_in, never);
  EXPECT_EQ(fixed.front().layout.chosen[0], DimensionSet(3)) << "rule 1 is given";
  std::vector<EvaluatedLayout> stopped{with_rules({0, 1, 2}, 1)};
  leave_out_rules(stopped, {}, evaluate, rules_in, [] { return true; });
  EXPECT_EQ(stopped.size(), 1u);
}

TEST(MeshShapes, AreAllThatTheMostDimensionsAllow) {
  EXPECT_THAT(mesh_shapes(1, 3), ElementsAre(Sizes{1}));
  EXPECT_THAT(mesh_shapes(8, 3), ElementsAre(Sizes{8}, Sizes{4, 2}, Sizes{2, 2, 2}));
  EXPECT_THAT(mesh_shapes(12, 2), ElementsAre(Sizes{12}, Sizes{6, 2}, Sizes{4, 3}));
  EXPECT_THAT(mesh_shapes(512, 2),
              ElementsAre(Sizes{512}, Sizes{256, 2}, Sizes{128, 4}, Sizes{64, 8}, Sizes{32, 16}));
  EXPECT_THAT(mesh_shapes(12, 2, true),
              ElementsAre(Sizes{12}, Sizes{6, 2}, Sizes{4, 3}, Sizes{2, 6}, Sizes{3, 4}));
  EXPECT_EQ(mesh_shapes(512, 9).size(), 30u);  // as Mesh TensorFlow has
}

}  // namespace
}  // namespace mtf::testing
