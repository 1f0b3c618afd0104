// Programs with fused epilogues give the same results as programs without.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/runtime/executor.h"
#include "engine/spmd/passes/passes.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/cuda/run_on.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 8}, kInput{"input", 6}, kHidden{"hidden", 10}, kOutput{"output", 4};

/// A step of y = gelu(relu(x u + b) v) w with loss mean(y^2) and gradient descent, in 2 microbatches.
void build_step(Graph& graph, DType activation) {
  const Tensor x = graph.input("x", {kBatch, kInput});
  std::vector<std::pair<const Variable*, Tensor>> weights;
  const auto weight = [&](const char* name, const Shape& shape) {
    const Variable& variable = graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.5));
    weights.emplace_back(&variable, graph.read(variable));
    return weights.back().second;
  };
  const Dimension inner{"inner", 7};
  const Tensor u = weight("u", {kInput, kHidden}), b = weight("b", {kHidden}),
               v = weight("v", {inner, kHidden}), w = weight("w", {inner, kOutput});
  const Tensors sums = repeat(graph, 2, {}, {"batch", 2}, [&](const Tensors&) {
    const Tensor part = cast(microbatch_slice(x), activation);
    const Shape rows = part.shape() - kInput;
    const auto narrow = [&](const Tensor& t) { return cast(t, activation); };
    const Tensor h = relu(einsum({part, narrow(u)}, rows + kHidden) + narrow(b));
    const Tensor y = einsum({gelu(einsum({h, narrow(v)}, rows + inner)), narrow(w)}, rows + kOutput);
    const Tensor loss = reduce_mean(square(cast(y, DType::kFloat32)), Shape{});
    Tensors results = gradients({loss}, {u, b, v, w});
    results.push_back(loss);
    return LoopResult{{}, results, {}};
  });
  graph.set_output("loss", sums.back());
  const Graph::Scope domain = graph.domain(Domain::kOptimizer);
  for (size_t n = 0; n < weights.size(); ++n)
    graph.assign(*weights[n].first, sgd_update(weights[n].second, sums[n], graph.constant(0.1)));
}

/// The losses of some steps.
Values losses(const Program& program) {
  VariableStore variables(cuda_device(), program.mesh, program.variables);
  variables.initialize(1);
  Executor executor(program, cuda_device(), variables, {});
  executor.feed("x", to_host({kBatch, kInput}, DType::kFloat32, random_normal_values(48, 1)).bytes.data());
  Values result;
  for (uint64_t step = 0; step < 5; ++step) {
    executor.run(step);
    result.push_back(executor.scalar("loss"));
  }
  return result;
}

TEST(FusedEpilogues, TrainAsSeparateInstructionsDo) {
  for (const DType activation : {DType::kFloat32, DType::kBFloat16}) {
    Graph graph;
    build_step(graph, activation);
    for (const auto& [mesh, layout] : std::vector<std::pair<const char*, const char*>>{
             {"p:1", ""}, {"p:2", "batch:p"}, {"p:2", "hidden:p"}, {"p:2", "input:p"}}) {
      SCOPED_TRACE(std::string(name_of(activation)) + " " + mesh + " " + layout);
      const Program fused = partition(graph, layouts(mesh, layout), {.fuse_epilogues = true});
      EXPECT_NE(fused.to_string().find(", einsum)"), std::string::npos) << fused.to_string();
      expect_close("losses", losses(fused), losses(partition(graph, layouts(mesh, layout))),
                   activation == DType::kFloat32 ? 1e-5 : 2e-2);
    }
  }
}

/// Expects that the program with fused epilogues has this line, and gives the same results as without.
void expect_same_results(const Graph& graph, const std::string& line,
                         const std::map<std::string, Values>& feeds) {
  const Program fused = partition(graph, Layouts::single(), {.fuse_epilogues = true});
  EXPECT_NE(fused.to_string().find(line), std::string::npos) << fused.to_string();
  expect_same_bits(run_on(cuda_device(), fused, feeds),
                   run_on(cuda_device(), partition(graph, Layouts::single()), feeds));
}

/// Uses whole numbers, whose sums are exact.
TEST(FusedEpilogues, AddProductsToTensorsThatDieAndToOthers) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const bool dies : {false, true}) {
      Graph graph;
      const Tensor x = graph.input("x", {kBatch, kInput}, dtype),
                   w = graph.input("w", {kInput, kHidden}, dtype),
                   residual = graph.input("residual", {kBatch, kHidden}, dtype);
      const Tensor addend = dies ? negative(residual) : residual;
      graph.set_output("y", addend + einsum({x, w}, {kBatch, kHidden}));
      expect_same_results(graph, "addend)",
                          {{"x", random_whole_values(48, -4, 5, 1)},
                           {"w", random_whole_values(60, -4, 5, 2)},
                           {"residual", random_whole_values(80, -9, 10, 3)}});
    }
  }
}

/// Ids that occur many times have sums of chunks; some rows have no ids.
TEST(FusedEpilogues, AddTheGradientOfALookUp) {
  const Dimension vocab{"vocab", 40}, places{"places", 3000}, width{"width", 8};
  for (const DType dtype : {DType::kFloat32, DType::kInt32}) {
    for (const bool dies : {false, true}) {
      Graph graph;
      const Tensor dy = graph.input("dy", {places, width}, dtype),
                   other = graph.input("other", {vocab, width}, dtype),
                   ids = graph.input("ids", {places}, DType::kInt32);
      const Tensor addend = dies ? negative(other) : other;
      graph.set_output(
          "sum", addend + graph.add<GatherGradient>(dy, ids, "vocab", Shape{vocab, width}, dtype).output());
      Values selected = random_whole_values(places.size, -1, 35, 2);
      std::fill(selected.begin(), selected.begin() + 1500, 7);
      expect_same_results(graph, "fused_gather_gradient",
                          {{"dy", random_whole_values(places.size * width.size, -4, 5, 1)},
                           {"other", random_whole_values(vocab.size * width.size, -9, 10, 3)},
                           {"ids", selected}});
    }
  }
}

/// A relu that turns NaN into 0 hides none from the gradients.
TEST(FusedEpilogues, ShowWhatIsNotFiniteInTheGradients) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch, kInput}, DType::kBFloat16),
               w = graph.input("w", {kInput, kHidden}, DType::kBFloat16);
  const Tensor loss =
      reduce_sum(square(cast(relu(einsum({x, w}, {kBatch, kHidden})), DType::kFloat32)), Shape{});
  const Tensors d = gradients({loss}, {x, w});
  Tensors norms;
  for (const Tensor& gradient : d)
    norms.push_back(reduce_sum(square(cast(gradient, DType::kFloat32)), Shape{}));
  graph.set_output("norm", add_n(norms));
  const Program fused = partition(graph, Layouts::single(), {.fuse_epilogues = true});
  ASSERT_NE(fused.to_string().find("relu)"), std::string::npos) << fused.to_string();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {1.0, std::nan(""), infinity, -infinity}) {
    for (const char* where : {"x", "w"}) {
      std::map<std::string, Values> feeds = {{"x", random_normal_values(48, 1)},
                                             {"w", random_normal_values(60, 2)}};
      feeds[where][13] = value;
      const Results results = run_on(cuda_device(), fused, feeds);
      const double norm = values_of(results.at("norm").bytes, DType::kFloat32)[0];
      EXPECT_EQ(std::isfinite(norm), value == 1) << value << " in " << where << ": " << norm;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
