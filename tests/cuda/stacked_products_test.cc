// Programs with stacked products give the same results as programs without.
#include <gtest/gtest.h>

#include <array>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/cuda/run_on.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kRows{"rows", 8}, kTokens{"tokens", 4}, kVector{"vector", 16}, kUnits{"units", 16};

/// A step of gradient descent on a layer of attention with queries, keys and values, in `microbatches` parts.
void build_attention_step(Graph& graph, int64_t microbatches) {
  const Tensor input = graph.input("x", {kRows, kTokens, kVector});
  std::vector<const Variable*> variables;
  Tensors weights;
  for (const char* name : {"first", "q", "k", "v"}) {
    const Shape shape = weights.empty() ? Shape{kVector, {"inner", 16}} : Shape{{"inner", 16}, kUnits};
    variables.push_back(&graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.3)));
    weights.push_back(graph.read(*variables.back()));
  }
  const auto step = [&](const Tensor& part) {
    const Dimension& rows = part.shape()[0];
    const auto layer = graph.layer();
    const auto narrow = [&](const Tensor& t) {
      const auto domain = graph.domain(Domain::kParameter);
      return cast(t, DType::kBFloat16);
    };
    const Tensor x =
        tanh(einsum({cast(part, DType::kBFloat16), narrow(weights[0])}, {rows, kTokens, {"inner", 16}}));
    const Tensor memory = rename(x, "tokens", "memory");
    const Shape of_memory{rows, {"memory", kTokens.size}, kUnits};
    const Tensor q = einsum({x, narrow(weights[1])}, {rows, kTokens, kUnits}),
                 k = einsum({memory, narrow(weights[2])}, of_memory),
                 v = einsum({memory, narrow(weights[3])}, of_memory);
    const Tensor logits = einsum({q, k}, {rows, kTokens, {"memory", kTokens.size}});
    const Tensor y = einsum({softmax(logits, "memory"), v}, {rows, kTokens, kUnits});
    const Tensor loss = reduce_sum(square(cast(y, DType::kFloat32)), Shape{});
    Tensors results = gradients({loss}, weights);
    results.push_back(loss);
    return results;
  };
  const Tensors sums = microbatches == 1
                           ? step(input)
                           : repeat(graph, microbatches, {}, {"rows", microbatches}, [&](const Tensors&) {
                               return LoopResult{{}, step(microbatch_slice(input)), {}};
                             });
  graph.set_output("loss", sums.back());
  const Graph::Scope domain = graph.domain(Domain::kOptimizer);
  const Graph::Scope update = graph.phase(Phase::kUpdate);
  for (size_t n = 0; n < variables.size(); ++n)
    graph.assign(*variables[n], sgd_update(weights[n], sums[n], graph.constant(0.01)));
}

TEST(StackedProducts, TrainAsSeparateOnesDo) {
  for (const int64_t microbatches : {1, 2}) {
    Graph graph;
    build_attention_step(graph, microbatches);
    for (const auto& [mesh, layout, parameters] : std::vector<std::array<const char*, 3>>{
             {"p:1", "", ""}, {"p:2", "rows:p", ""}, {"p:2", "units:p", ""}, {"p:2", "rows:p", "inner:p"}}) {
      SCOPED_TRACE(std::to_string(microbatches) + " " + mesh + " " + layout + " " + parameters);
      const PartitionOptions apart{.fuse_epilogues = true, .group_variables = true};
      PartitionOptions stacked = apart;
      stacked.stack_products = true;
      const Layouts laid_out = layouts(mesh, layout, parameters);
      const Program program = partition(graph, laid_out, stacked);
      EXPECT_NE(program.to_string().find("_stack=3"), std::string::npos) << program.to_string();
      const std::map<std::string, Values> feeds = {{"x", random_normal_values(8 * 4 * 16, 1)}};
      expect_same_bits(run_on(cuda_device(), program, feeds),
                       run_on(cuda_device(), partition(graph, laid_out, apart), feeds));
    }
  }
}

}  // namespace
}  // namespace mtf::testing
