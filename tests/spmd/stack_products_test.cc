// Tests which products become one, by the shapes of products in partitioned programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/graph/gradients.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kTokens{"tokens", 8}, kVector{"vector", 16}, kHeads{"heads", 16};

struct StackedModel {
  /// A layer that multiplies x, whose tokens are renamed for k, with weights q and k in bfloat16.
  explicit StackedModel(int64_t heads_of_k = kHeads.size) {
    const Dimension others{"others", heads_of_k};
    const Tensor input = graph.input("x", {kTokens, kVector}, DType::kBFloat16);
    const Tensor x = tanh(input);
    const auto layer = graph.layer();
    const Tensor q = einsum({x, weight("q", kHeads)}, {kTokens, kHeads});
    const Tensor k = rename(
        einsum({rename(x, "tokens", "memory"), weight("k", others)}, {{"memory", kTokens.size}, others}),
        "memory", "tokens");
    const Tensor loss = reduce_sum(cast(tanh(einsum({q, k}, {kHeads, others})), DType::kFloat32), Shape{});
    graph.set_output("loss", loss);
    Tensors sources = weights;
    sources.push_back(input);
    const Tensors d = gradients({loss}, sources);
    const Graph::Scope update = graph.phase(Phase::kUpdate);
    for (size_t i = 0; i < d.size(); ++i)
      graph.set_output("d" + std::to_string(i), square(cast(d[i], DType::kFloat32)));
  }

  Tensor weight(const char* name, const Dimension& heads) {
    weights.push_back(
        graph.read(graph.variable(name, {kVector, heads}, DType::kFloat32, Initializer::normal(1))));
    const auto domain = graph.domain(Domain::kParameter);
    return cast(weights.back(), DType::kBFloat16);
  }

  /// The shapes of the products' results.
  std::vector<std::string> products(const Layouts& layouts) const {
    const Program program = partition(graph, layouts, {.group_variables = true, .stack_products = true});
    std::vector<std::string> lines;
    for (const Instruction& instruction : program.instructions) {
      if (!dynamic_cast<const Einsum*>(instruction.operation())) continue;
      lines.push_back(to_string(program.values[instruction.outputs[0]].shape,
                                program.values[instruction.outputs[0]].layout, program.mesh));
    }
    return lines;
  }

  Graph graph;
  Tensors weights;
};

TEST(StackProducts, JoinsProductsOfOneTensorAndTheGradientsOfTheirWeights) {
  EXPECT_THAT(
      StackedModel().products(Layouts::single()),
      ::testing::IsSupersetOf({"[_stack=2, tokens=8, heads=16]", "[_stack=2, vector=16, others=16]"}));
}

TEST(StackProducts, LeavesProductsOfOtherShapes) {
  EXPECT_THAT(StackedModel(32).products(Layouts::single()),
              ::testing::Each(::testing::Not(::testing::HasSubstr("_stack"))));
}

TEST(StackProducts, JoinsProductsOfSlices) {
  EXPECT_THAT(StackedModel().products(layouts("p:2", "tokens:p;memory:p")),
              ::testing::Contains("[_stack=2, tokens=8/p, heads=16]"));
}

}  // namespace
}  // namespace mtf::testing
