#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/sharding_rule.h"
#include "engine/graph/structural.h"
#include "engine/ops/concat.h"
#include "engine/ops/einsum.h"
#include "engine/ops/pool.h"
#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"
#include "engine/ops/unary.h"
#include "engine/spmd/partition/partition.h"
#include "tests/support/problem_texts.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;

/// A two-layer network: x [batch=64, pixels=784], hidden=1024, classes=10.
void build_mlp(Graph& graph) {
  const Tensor x = graph.input("x", {{"batch", 64}, {"pixels", 784}});
  const Graph::Scope scope = graph.scope("layer_1");
  const Tensor w = graph.read(graph.variable("layer_1/kernel", {{"pixels", 784}, {"hidden", 1024}},
                                             DType::kFloat32, Initializer::zeros()));
  const Tensor v = graph.read(graph.variable("layer_2/kernel", {{"hidden", 1024}, {"classes", 10}},
                                             DType::kFloat32, Initializer::zeros()));
  graph.set_output("y", einsum({relu(einsum({x, w})), v}));
}

LayoutRule rule(const std::string& dimension, std::vector<std::string> over, int line) {
  return {dimension, std::move(over), Mark{"run.yaml", line, 11, 1, {}}};
}

Diagnostics check(const Graph& graph, const std::string& mesh, std::vector<LayoutRule> layout,
                  std::vector<LayoutRule> parameter = {}, std::vector<LayoutRule> optimizer = {}) {
  Diagnostics diagnostics;
  check_layouts(graph,
                Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules(std::move(layout)),
                              LayoutRules(std::move(parameter)), LayoutRules(std::move(optimizer))),
                diagnostics);
  return diagnostics;
}

Diagnostics check_mlp(const std::string& mesh, std::vector<LayoutRule> layout,
                      std::vector<LayoutRule> parameter = {}, std::vector<LayoutRule> optimizer = {}) {
  Graph graph;
  build_mlp(graph);
  return check(graph, mesh, std::move(layout), std::move(parameter), std::move(optimizer));
}

/// The only error of `diagnostics`.
Problem only_error(const Diagnostics& diagnostics) {
  EXPECT_EQ(diagnostics.errors().size(), 1u);
  return diagnostics.errors().empty() ? Problem{} : diagnostics.errors()[0];
}

TEST(LayoutCheck, PassesLegalLayouts) {
  for (const auto& layout :
       std::vector<std::vector<LayoutRule>>{{},
                                            {rule("batch", {"rows"}, 1), rule("hidden", {"cols"}, 1)},
                                            {rule("batch", {"rows", "cols"}, 1)},
                                            {rule("hidden", {"cols", "rows"}, 1)}}) {
    EXPECT_FALSE(check_mlp("rows:2;cols:4", layout).has_errors());
  }
}

TEST(LayoutCheck, L1OneDimensionOverTwoMeshDimensionsByTwoRules) {
  const Problem problem =
      only_error(check_mlp("rows:2;cols:4", {rule("batch", {"rows"}, 7), rule("batch", {"cols"}, 8)}));
  EXPECT_EQ(problem.mark.to_string(), "run.yaml:8:11");
  EXPECT_EQ(problem.message, "layout splits `batch` twice, over `rows` and over `cols`");
  EXPECT_EQ(problem.hint, "leave one, or write batch: [rows, cols] to split it over both");
  EXPECT_EQ(problem.details,
            "used by x [batch=64, pixels=784], layer_1/einsum [batch=64, pixels=784], "
            "layer_1/relu [batch=64, hidden=1024]");
}

TEST(LayoutCheck, L1AdviceIsNotWhatIsRefusedNext) {
  const Problem same =
      only_error(check_mlp("rows:2", {rule("batch", {"rows"}, 7), rule("batch", {"rows"}, 8)}));
  EXPECT_EQ(same.message, "layout splits `batch` over `rows` twice");
  EXPECT_EQ(same.hint, "leave one of the two rules out");
  const Problem overlapping = only_error(
      check_mlp("rows:2;cols:4", {rule("batch", {"rows"}, 7), rule("batch", {"cols", "rows"}, 8)}));
  EXPECT_EQ(overlapping.hint, "leave one of the two rules out");
}

TEST(LayoutCheck, L2TwoDimensionsOfOneTensorOverOneMeshDimension) {
  const Problem problem =
      only_error(check_mlp("rows:2", {rule("pixels", {"rows"}, 7), rule("hidden", {"rows"}, 8)}));
  EXPECT_EQ(problem.mark.to_string(), "run.yaml:8:11");
  EXPECT_EQ(problem.message,
            "layout splits `pixels` and `hidden`, both of one tensor, over mesh dimension `rows`");
  EXPECT_EQ(problem.hint, "split one of them over another mesh dimension or not at all");
  EXPECT_EQ(
      problem.details,
      "used by layer_1/kernel [pixels=784, hidden=1024], layer_1/einsum [batch=64, pixels=784, hidden=1024]");
}

TEST(LayoutCheck, L2RulesOfTwoSections) {
  // In the first kernel the dimension of the later section stands first, in the second one last.
  Graph graph;
  build_mlp(graph);
  const Tensor back = graph.read(
      graph.variable("back", {{"hidden", 1024}, {"pixels", 784}}, DType::kFloat32, Initializer::zeros()));
  graph.set_output("back", relu(back));
  graph.variable("slot", {{"hidden", 1024}, {"pixels", 784}}, DType::kFloat32, Initializer::zeros(),
                 Variable::Kind::kSlot);
  const Problem parameter =
      only_error(check(graph, "x:2", {rule("hidden", {"x"}, 7)}, {rule("pixels", {"x"}, 8)}));
  EXPECT_EQ(parameter.mark.to_string(), "run.yaml:8:11");
  EXPECT_EQ(
      parameter.message,
      "layout splits `hidden` (run.yaml:7:11) and parameter_layout `pixels`, both of one tensor, over mesh "
      "dimension `x`");
  const Problem optimizer = only_error(
      check(graph, "x:2", {rule("batch", {"x"}, 7)}, {rule("pixels", {"x"}, 8)}, {rule("hidden", {"x"}, 9)}));
  EXPECT_EQ(optimizer.mark.to_string(), "run.yaml:9:11");
  EXPECT_EQ(
      optimizer.message,
      "parameter_layout splits `pixels` (run.yaml:8:11) and optimizer_layout `hidden`, both of one tensor, "
      "over mesh dimension `x`");
}

TEST(LayoutCheck, L2OneMeshDimensionTwiceInOneRule) {
  const Problem problem = only_error(check_mlp("rows:2", {rule("batch", {"rows", "rows"}, 7)}));
  EXPECT_EQ(problem.message, "layout splits `batch` over mesh dimension `rows` twice");
  EXPECT_EQ(problem.hint, "name it once");
}

TEST(LayoutCheck, L2DimensionsThatAreSplitApart) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 4}, {"experts", 4}, {"d", 4}});
  const std::string apart = split_apart("batch", {"experts"});
  graph.set_output("y", einsum({rename(x, "batch", apart), graph.input("w", {{"d", 4}, {"hidden", 4}})},
                               {{apart, 4}, {"experts", 4}, {"hidden", 4}}));
  EXPECT_EQ(only_error(check(graph, "x:2", {rule("batch", {"x"}, 1), rule("hidden", {"x"}, 2)})).message,
            "layout splits `batch` and `hidden`, both of one tensor, over mesh dimension `x`");
  // Over x `batch` is not split any more where it is renamed.
  Graph shared;
  const Tensor u = shared.input("u", {{"batch", 4}, {"d", 4}});
  const Tensor w = shared.input("w", {{"experts", 4}, {"d", 4}, {"hidden", 4}});
  shared.set_output("y", einsum({rename(u, "batch", apart), w}, {{"experts", 4}, {apart, 4}, {"hidden", 4}}));
  EXPECT_FALSE(
      check(shared, "x:2;y:2", {rule("batch", {"x"}, 1), rule("experts", {"x"}, 2), rule("hidden", {"y"}, 3)})
          .has_errors());
}

TEST(LayoutCheck, L3TwoDimensionsOfTheOperandsOfAnEinsum) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}, {"b", 4}}), y = graph.input("y", {{"b", 4}, {"c", 4}});
  graph.set_output("z", einsum({x, y}, {{"a", 4}, {"c", 4}}));
  EXPECT_EQ(only_error(check(graph, "rows:2", {rule("a", {"rows"}, 1), rule("b", {"rows"}, 2)})).message,
            "layout splits `a` and `b`, both of one tensor, over mesh dimension `rows`");

  // a and c occur together in no tensor, only in the operation.
  Graph summed;
  const Tensor u = summed.input("u", {{"a", 4}, {"b", 4}, {"d", 4}}),
               v = summed.input("v", {{"b", 4}, {"c", 4}, {"d", 4}});
  const Tensor w = summed.add<Einsum>(u, v, Shape{{"b", 4}, {"c", 4}}).output();
  summed.set_output("w", w);
  const Problem problem =
      only_error(check(summed, "rows:2", {rule("a", {"rows"}, 1), rule("c", {"rows"}, 2)}));
  EXPECT_EQ(problem.message,
            "layout splits `a` and `c`, both of the operands of one operation, over mesh dimension `rows`");
  EXPECT_EQ(problem.mark.line, 2);
}

TEST(LayoutCheck, L4SizesThatAreNotDivisible) {
  const Problem problem = only_error(check_mlp("rows:2;cols:4", {rule("classes", {"cols"}, 7)}));
  EXPECT_EQ(problem.mark.to_string(), "run.yaml:7:11");
  EXPECT_EQ(problem.message,
            "layout splits `classes` (10) over mesh dimension `cols` (4), which does not divide it");
  EXPECT_EQ(problem.hint, "`cols` could be 1, 2, 5 or 10");
  EXPECT_EQ(problem.details,
            "used by layer_2/kernel [hidden=1024, classes=10], layer_1/einsum [batch=64, classes=10]");
}

TEST(LayoutCheck, L4OverSeveralMeshDimensionsTogether) {
  EXPECT_FALSE(check_mlp("rows:2;cols:5", {rule("classes", {"rows", "cols"}, 7)}).has_errors());
  const Problem problem = only_error(check_mlp("rows:2;cols:3", {rule("classes", {"rows", "cols"}, 7)}));
  EXPECT_EQ(
      problem.message,
      "layout splits `classes` (10) over mesh dimensions `rows` and `cols` (6), which do not divide it");
  EXPECT_EQ(problem.hint, "their product could be 1, 2, 5 or 10");
}

TEST(LayoutCheck, L4ADimensionWithSeveralSizes) {
  Graph graph;
  Tensor x = graph.input("image", {{"rows", 28}});
  for (const char* layer : {"stage_1", "stage_2"}) {
    const Graph::Scope scope = graph.scope(layer);
    x = window_max(x, {window_over(x.shape()[0], {.size = 2, .stride = 2})});
  }
  graph.set_output("y", x);
  EXPECT_FALSE(check(graph, "all:7", {rule("rows", {"all"}, 3)}).has_errors());

  const Problem later = only_error(check(graph, "all:2", {rule("rows", {"all"}, 3)}));
  EXPECT_EQ(
      later.message,
      "layout splits `rows` over mesh dimension `all` (2), which does not divide its 7 entries in stage_2");
  EXPECT_EQ(
      later.hint,
      "`rows` has 28, 14 and 7 entries in this model, and `all` could be 1 or 7, or give it another name "
      "before stage_2");
  EXPECT_EQ(later.details, "used by stage_2/window_max [rows=7]");

  const Problem first = only_error(check(graph, "all:3", {rule("rows", {"all"}, 3)}));
  EXPECT_EQ(
      first.message,
      "layout splits `rows` over mesh dimension `all` (3), which does not divide its 28 entries in image");
  EXPECT_EQ(first.hint, "`rows` has 28, 14 and 7 entries in this model, and `all` could be 1 or 7");

  // From another name on the dimension follows no rule.
  Graph renamed;
  x = renamed.input("image", {{"rows", 28}});
  x = window_max(x, {window_over(x.shape()[0], {.size = 2, .stride = 2})});
  x = rename(x, "rows", "whole_rows");
  renamed.set_output("y", window_max(x, {window_over(x.shape()[0], {.size = 2, .stride = 2})}));
  EXPECT_FALSE(check(renamed, "all:2", {rule("rows", {"all"}, 3)}).has_errors());
}

TEST(LayoutCheck, L4SizesWithoutACommonDivisor) {
  Graph graph;
  const Tensor x = graph.input("image", {{"rows", 12}});
  const Graph::Scope scope = graph.scope("valid");
  graph.set_output("y", window_max(x, {window_over(x.shape()[0], {.size = 6, .padding = Padding::valid()})}));
  EXPECT_EQ(only_error(check(graph, "all:2", {rule("rows", {"all"}, 3)})).hint,
            "`rows` has 12 and 7 entries in this model, and only 1 divides them all: leave `rows` unsplit, "
            "or give it "
            "another name before valid");
}

TEST(LayoutCheck, L6OperationsAlongASplitDimension) {
  Graph graph;
  const Tensor x = graph.input("x", {{"length", 8}});
  const Graph::Scope scope = graph.scope("decoder/layer_001");
  graph.set_output("y", slice(x, "length", 2, 4));
  const Problem problem = only_error(check(graph, "rows:2", {rule("length", {"rows"}, 3)}));
  EXPECT_EQ(problem.mark.to_string(), "run.yaml:3:11");
  EXPECT_EQ(problem.message, "layout splits `length`, along which slice cannot be split");
  EXPECT_EQ(problem.hint, "leave `length` unsplit");
  EXPECT_EQ(problem.details, "used by decoder/layer_001");
  EXPECT_FALSE(check(graph, "rows:1", {rule("length", {"rows"}, 3)}).has_errors());
}

TEST(LayoutCheck, L6NamesWhatCouldBeSplitInstead) {
  Graph graph;
  const Tensor x = graph.input("x", {{"length", 9}, {"batch", 8}, {"heads", 4}, {"d_kv", 16}});
  graph.set_output("y", concat({slice(x, "d_kv", 8, 8), slice(x, "d_kv", 0, 8)}, "d_kv"));
  const Diagnostics problems =
      check(graph, "rows:2;cols:2", {rule("batch", {"rows"}, 3), rule("d_kv", {"cols"}, 4)});
  ASSERT_FALSE(problems.errors().empty());
  for (const Problem& problem : problems.errors())
    EXPECT_EQ(problem.hint, "split `heads` over `cols` instead, or leave `d_kv` unsplit");
  EXPECT_FALSE(
      check(graph, "rows:2;cols:2", {rule("batch", {"rows"}, 3), rule("heads", {"cols"}, 4)}).has_errors());
}

TEST(LayoutCheck, L2AllowsTwoDimensionsOnAMeshDimensionOfOnePosition) {
  const std::vector<LayoutRule> rules = {rule("pixels", {"a"}, 3), rule("hidden", {"a"}, 4)};
  EXPECT_FALSE(check_mlp("a:1;b:2", rules).has_errors());
  EXPECT_TRUE(check_mlp("a:2;b:1", rules).has_errors());
  EXPECT_TRUE(check_mlp("a:1;b:2", {rule("hidden", {"a", "a"}, 3)}).has_errors()) << "a slip all the same";
}

TEST(LayoutCheck, UnknownMeshDimensionsWithTheNearest) {
  EXPECT_THAT(
      texts(check_mlp("rows:2;cols:4", {rule("batch", {"row"}, 7)}).errors()),
      ElementsAre(
          "run.yaml:7:11: layout splits `batch` over `row`, which is no dimension of the mesh; did you mean "
          "`rows`?"));
  EXPECT_EQ(only_error(check_mlp("rows:2;cols:4", {rule("batch", {"experts"}, 7)})).hint,
            "the mesh has `rows` and `cols`");
  EXPECT_EQ(only_error(check_mlp("", {rule("batch", {"all"}, 7)})).hint,
            "there is no `mesh`: add one, for example {all: 2}");
}

TEST(LayoutCheck, NamesTheSectionThatARuleComesFrom) {
  EXPECT_EQ(
      only_error(check_mlp("rows:2", {rule("pixels", {"x"}, 1)}, {rule("pixels", {"rows"}, 2)})).message,
      "layout splits `pixels` over `x`, which is no dimension of the mesh");
  EXPECT_EQ(
      only_error(check_mlp("rows:3", {}, {rule("pixels", {"rows"}, 2)})).message,
      "parameter_layout splits `pixels` (784) over mesh dimension `rows` (3), which does not divide it");
  Graph graph;
  build_mlp(graph);
  graph.variable("layer_1/kernel_slot_m", {{"pixels", 784}}, DType::kFloat32, Initializer::zeros(),
                 Variable::Kind::kSlot);
  EXPECT_EQ(
      only_error(check(graph, "rows:3", {}, {}, {rule("pixels", {"rows"}, 2)})).message,
      "optimizer_layout splits `pixels` (784) over mesh dimension `rows` (3), which does not divide it");
}

TEST(LayoutCheck, ParameterRulesDoNotConcernActivations) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 7}});
  graph.set_output("y", relu(x));
  graph.variable("w", {{"hidden", 8}}, DType::kFloat32, Initializer::zeros());
  EXPECT_FALSE(
      check(graph, "rows:2", {}, {rule("batch", {"rows"}, 1), rule("hidden", {"rows"}, 1)}).has_errors());
}

TEST(LayoutCheck, ReportsAllErrorsAtOnce) {
  const Diagnostics diagnostics =
      check_mlp("rows:3;cols:4",
                {rule("batch", {"rows"}, 5), rule("classes", {"cols"}, 6), rule("pixels", {"col"}, 7)});
  EXPECT_EQ(diagnostics.errors().size(), 3u);
  try {
    diagnostics.throw_if_errors();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    ASSERT_EQ(error.problems().size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(error.problems()[i].mark.line, 5 + i);
  }
}

TEST(LayoutCheck, LooksIntoLoops) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 8}});
  const Tensors y = repeat(graph, 4, {}, {"batch", 4}, [&](const Tensors&) {
    return LoopResult{{}, {}, {relu(microbatch_slice(x))}};
  });
  graph.set_output("y", y[0]);
  EXPECT_EQ(only_error(check(graph, "rows:4", {rule("batch", {"rows"}, 1)})).message,
            "layout splits `batch` (2 in each of 4 microbatches) over mesh dimension `rows` (4), which does "
            "not divide it");
}

TEST(LayoutCheck, NamesLayersInLoopsAsPlaces) {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 8}, {"rows", 28}});
  const Tensors y = repeat(graph, 4, {}, {"batch", 4}, [&](const Tensors&) {
    const Graph::Scope scope = graph.scope("pool");
    const Tensor x = microbatch_slice(image);
    return LoopResult{{}, {}, {window_max(x, {window_over({"rows", 28}, {.size = 2, .stride = 2})})}};
  });
  graph.set_output("y", y[0]);
  const Problem problem = only_error(check(graph, "all:4", {rule("rows", {"all"}, 3)}));
  EXPECT_EQ(
      problem.message,
      "layout splits `rows` over mesh dimension `all` (4), which does not divide its 14 entries in pool");
  EXPECT_EQ(
      problem.hint,
      "`rows` has 28 and 14 entries in this model, and `all` could be 1, 2, 7 or 14, or give it another "
      "name before pool");
}

TEST(LayoutCheck, LeavesRulesForInternalDimensionsToTheCheckOfUnusedOnes) {
  Graph graph;
  graph.set_output("y", relu(graph.input("x", {{"batch", 8}, {"_entries", 5}})));
  EXPECT_FALSE(
      check(graph, "rows:2", {rule("batch", {"rows"}, 1), rule("_entries", {"rows"}, 1)}).has_errors());
}

TEST(LayoutCheck, DoesNotLookAtWhatNothingNeeds) {
  Graph graph;
  relu(graph.input("unused", {{"batch", 7}}));
  graph.set_output("y", relu(graph.input("x", {{"length", 8}})));
  EXPECT_FALSE(
      check(graph, "rows:2", {rule("batch", {"rows"}, 1), rule("length", {"rows"}, 1)}).has_errors());
}

}  // namespace
}  // namespace mtf
