#include "engine/graph/graph.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/graph/structural.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

const Shape kShape{{"a", 2}, {"b", 3}};

TEST(Graph, NamesAreUniqueWithoutRegardToCase) {
  Graph graph;
  EXPECT_EQ(graph.unique_name("a"), "a");
  EXPECT_EQ(graph.unique_name("a"), "a_1");
  EXPECT_EQ(graph.unique_name("a_1"), "a_1_1");
  EXPECT_EQ(graph.unique_name("A"), "A_2");
  const auto scope = graph.scope("layer");
  EXPECT_EQ(graph.unique_name("a"), "layer/a");
}

TEST(Graph, ScopesNestAndEnd) {
  Graph graph;
  {
    const auto outer = graph.scope("encoder", Mark{"model.yaml", 3, 5, 1, {}});
    const auto inner = graph.scope("layer_000");
    EXPECT_EQ(graph.scoped("kernel"), "encoder/layer_000/kernel");
    EXPECT_EQ(graph.provenance().scope.mark().line, 3);
  }
  EXPECT_EQ(graph.scoped("kernel"), "kernel");
}

TEST(Graph, AVariableIsSharedByName) {
  Graph graph;
  const Variable& w = graph.variable("w", kShape, DType::kFloat32, Initializer::zeros());
  EXPECT_EQ(&graph.variable("w", kShape, DType::kFloat32, Initializer::zeros()), &w);
  EXPECT_EQ(graph.read(w), graph.read(w));
  EXPECT_THROW(graph.variable("w", {{"a", 2}}, DType::kFloat32, Initializer::zeros()), Error);
}

TEST(Graph, NamesOfDimensionsThatFilesAndLayoutsReadOtherwiseAreRefused) {
  Graph graph;
  for (const std::string name : {"", "x,y", "x\\", "\\x"}) {
    EXPECT_THROW(graph.input("x", {{name, 2}}), Error) << name;
    const Shape shape{{"a", 2}, {name, 2}};
    EXPECT_THROW(graph.variable("w", shape, DType::kFloat32, Initializer::zeros()), Error) << name;
  }
  EXPECT_NO_THROW(graph.input("x", {{"_x", 2}, {"x y", 2}}));
}

TEST(Graph, AnAssignedValueHasTheVariablesShape) {
  Graph graph;
  const Variable& w = graph.variable("w", kShape, DType::kFloat32, Initializer::zeros());
  EXPECT_THROW(graph.assign(w, graph.constant(1)), Error);
}

TEST(Graph, ACloneReadsOtherInputs) {
  Graph graph;
  const Tensor x = graph.input("x", kShape), y = graph.input("y", kShape);
  const Tensor z = relu(x);
  const Operation& copy = graph.add_clone(z.operation(), {y});
  EXPECT_EQ(copy.name(), "relu");
  EXPECT_EQ(copy.input(0), y);
}

TEST(Graph, IsAsBeforeAfterABlockThatCannotBeBuilt) {
  Graph graph;
  const Variable& w = graph.variable("w", kShape, DType::kFloat32, Initializer::zeros());
  EXPECT_THROW(graph.capture({"a", 2},
                             [&] {
                               graph.read(w);
                               throw Error(ErrorKind::kConfig, "wrong");
                             }),
               Error);
  EXPECT_EQ(&graph.current_block(), &graph.root());
  EXPECT_EQ(graph.microbatching().count, 1);
  graph.read(w);
  EXPECT_EQ(graph.root().size(), 1u);
}

TEST(Repeat, ACarriedTensorKeepsItsShape) {
  Graph graph;
  const Tensor x = graph.input("x", kShape);
  EXPECT_THROW(repeat(graph, 2, {x}, {},
                      [&](const Tensors&) {
                        return LoopResult{{graph.constant(1)}, {}, {}};
                      }),
               Error);
}

TEST(MicrobatchSlice, NeedsABatchThatDivides) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 6}});
  EXPECT_THROW(repeat(graph, 4, {}, {"batch", 4},
                      [&](const Tensors&) {
                        return LoopResult{{}, {microbatch_slice(x)}, {}};
                      }),
               Error);
}

}  // namespace
}  // namespace mtf
