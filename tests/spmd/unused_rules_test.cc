// Layout rules for dimensions that no tensor of their kind has.
#include "engine/spmd/partition/unused_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/sharding_rule.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "tests/support/problem_texts.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// x [batch, pixels] · kernel [pixels, hidden].
void build_network(Graph& graph) {
  const Tensor x = graph.input("x", {{"batch", 8}, {"pixels", 6}});
  const Tensor w = graph.read(
      graph.variable("kernel", {{"pixels", 6}, {"hidden", 4}}, DType::kFloat32, Initializer::zeros()));
  graph.set_output("y", relu(einsum({x, w})));
}

LayoutRules rules_at(int line, const std::vector<std::pair<std::string, std::string>>& rules) {
  std::vector<LayoutRule> result;
  for (const auto& [dimension, over] : rules)
    result.push_back({dimension, {over}, Mark{line > 0 ? "run.yaml" : "argument 2", line, 11, 1, {}}});
  return LayoutRules(std::move(result));
}

struct Sections {
  LayoutRules layout = {}, parameter_layout = {}, optimizer_layout = {};
  std::vector<std::string> shared = {};
};

Diagnostics check(const Sections& sections, const std::string& mesh = "all:2") {
  Graph graph;
  build_network(graph);
  DimensionNames names;
  names.add(graph);
  Diagnostics diagnostics;
  check_unused_rules({sections.layout, sections.parameter_layout, sections.optimizer_layout, sections.shared},
                     Mesh(Shape::parse(mesh)), names, {}, diagnostics);
  return diagnostics;
}

TEST(UnusedRules, OfTheLayoutAreErrorsWithTheNearestName) {
  const Diagnostics diagnostics = check({.layout = rules_at(7, {{"hiden", "all"}, {"batch", "all"}})});
  EXPECT_THAT(
      texts(diagnostics.errors()),
      ElementsAre("run.yaml:7:11: layout splits `hiden`, a dimension that no tensor of the model has; "
                  "did you mean `hidden`?"));
}

TEST(UnusedRules, WithoutANearNameAllAreListed) {
  EXPECT_THAT(
      texts(check({.layout = rules_at(0, {{"experts", "all"}})}).errors()),
      ElementsAre("argument 2: layout splits `experts`, a dimension that no tensor of the model has; one of "
                  "`batch`, `hidden`, `pixels`"));
  EXPECT_THAT(
      texts(check({.layout = rules_at(7, {{"experts", "all"}})}).errors()),
      ElementsAre("run.yaml:7:11: layout splits `experts`, a dimension that no tensor of the model has; one "
                  "of `batch`, `hidden`, `pixels`, or `shared_layout: true` in a file of layouts for several "
                  "models"));
}

TEST(UnusedRules, OfInternalDimensionsAreRefused) {
  Graph graph;
  build_network(graph);
  graph.set_output("report", relu(graph.input("shares", {{"_entries", 4}})));
  DimensionNames names;
  names.add(graph);
  EXPECT_THAT(names.tensors, ElementsAre("batch", "hidden", "pixels"));
  const LayoutRules layout = rules_at(7, {{"_entries", "all"}}), none;
  for (const std::vector<std::string>& shared : {std::vector<std::string>(), {"_entries"}}) {
    Diagnostics diagnostics;
    check_unused_rules({layout, none, none, shared}, Mesh(Shape::parse("all:2")), names, {}, diagnostics);
    EXPECT_THAT(
        texts(diagnostics.errors()),
        ElementsAre("run.yaml:7:11: layout splits `_entries`, and dimensions whose names begin with `_` "
                    "are internal; one of `batch`, `hidden`, `pixels`"));
  }
}

TEST(UnusedRules, OfDimensionsThatAreSplitApartAreRefused) {
  Graph graph;
  build_network(graph);
  const std::string apart = split_apart("experts", {"batch"});
  graph.set_output("report", rename(graph.input("load", {{"experts", 4}}), "experts", apart));
  DimensionNames names;
  names.add(graph);
  EXPECT_THAT(names.tensors, ElementsAre("batch", "experts", "hidden", "pixels"));
  const LayoutRules layout = rules_at(7, {{apart, "all"}}), none;
  const std::vector<std::string> shared;
  Diagnostics diagnostics;
  check_unused_rules({layout, none, none, shared}, Mesh(Shape::parse("all:2")), names, {}, diagnostics);
  EXPECT_THAT(
      texts(diagnostics.errors()),
      ElementsAre("run.yaml:7:11: layout splits `experts\\batch`, and dimensions whose names have `\\` "
                  "are internal; one of `batch`, `experts`, `hidden`, `pixels`"));
}

TEST(UnusedRules, OfVariablesAndSlotsNeedAVariable) {
  EXPECT_THAT(
      texts(check({.parameter_layout = rules_at(0, {{"batch", "all"}})}).errors()),
      ElementsAre("argument 2: parameter_layout splits `batch`, a dimension that no variable of the model "
                  "has; one of `hidden`, `pixels`"));
  EXPECT_THAT(
      texts(check({.optimizer_layout = rules_at(0, {{"batch", "all"}})}).errors()),
      ElementsAre("argument 2: optimizer_layout splits `batch`, a dimension that no variable of the model "
                  "has; one of `hidden`, `pixels`"));
  EXPECT_FALSE(check({.parameter_layout = rules_at(0, {{"hidden", "all"}})}).has_errors());
}

TEST(UnusedRules, OfSharedLayoutsAreOnlyMentioned) {
  const Diagnostics near =
      check({.layout = rules_at(7, {{"hiden", "all"}, {"batch", "all"}}), .shared = {"hiden"}});
  EXPECT_THAT(near.errors(), IsEmpty());
  EXPECT_THAT(
      texts(near.warnings()),
      ElementsAre("run.yaml:7:11: layout rule for `hiden` matches no tensor; did you mean `hidden`?"));
  const Diagnostics idle = check({.layout = rules_at(7, {{"experts", "all"}}), .shared = {"experts"}});
  EXPECT_THAT(
      texts(idle.warnings()),
      ElementsAre(
          "run.yaml:7:11: layout rule for `experts` matches no tensor; mesh dimension `all` splits nothing",
          "mesh dimension `all` (2) splits no tensor: all its positions do the same work"));
  const Diagnostics other =
      check({.layout = rules_at(7, {{"batch", "all"}, {"experts", "all"}}), .shared = {"experts"}});
  EXPECT_THAT(other.warnings(), IsEmpty());
  EXPECT_THAT(other.notes(), ElementsAre("layout rule for `experts` matches no tensor"));
}

TEST(UnusedRules, WarnOfAnIdleMeshDimension) {
  const Diagnostics diagnostics = check({.layout = rules_at(7, {{"batch", "rows"}})}, "rows:2;cols:4;one:1");
  EXPECT_THAT(texts(diagnostics.warnings()),
              ElementsAre("mesh dimension `cols` (4) splits no tensor: all its positions do the same work"));
}

TEST(UnusedRules, AreJudgedByAllGraphsTogether) {
  const GraphMaker network = [] {
    auto graph = std::make_unique<Graph>();
    build_network(*graph);
    return graph;
  };
  const GraphMaker classes = [] {
    auto graph = std::make_unique<Graph>();
    graph->set_output("z", relu(graph->input("z", {{"classes", 2}})));
    return graph;
  };
  const GraphMaker none_needed = []() -> std::unique_ptr<Graph> {
    ADD_FAILURE() << "all rules are used";
    return std::make_unique<Graph>();
  };
  const LayoutRules layout = rules_at(0, {{"classes", "all"}}), none;
  const std::vector<std::string> shared;
  const LayoutSections sections{layout, none, none, shared};
  const Mesh mesh(Shape::parse("all:2"));
  Diagnostics of_network, of_both;
  check_unused_rules(sections, mesh, {}, {network}, of_network);
  EXPECT_TRUE(of_network.has_errors());
  check_unused_rules(sections, mesh, {}, {network, classes, none_needed}, of_both);
  EXPECT_FALSE(of_both.has_errors());
}

TEST(UnusedRules, ATurnedRuleIsReportedByTheCheckOfMeshDimensions) {
  EXPECT_FALSE(check({.layout = rules_at(7, {{"all", "batch"}})}).has_errors());
}

}  // namespace
}  // namespace mtf
