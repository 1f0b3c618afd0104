// Tests what is fused into contractions and what is not, by lines of partitioned programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

const Dimension kBatch{"batch", 8}, kInput{"input", 6}, kHidden{"hidden", 4}, kOutput{"output", 2};

/// Appends lines such as "fused_einsum(%x, %w, %b, bias, relu)", including those in the bodies of loops.
void collect(const Program& program, const std::vector<Instruction>& block, std::vector<std::string>& lines) {
  for (const Instruction& instruction : block) {
    collect(program, instruction.body(), lines);
    if (instruction.is<action::Loop>() || instruction.is<action::Done>()) continue;
    const std::string line = to_string(program, instruction);
    const size_t begin = line.find("= ") + 2;
    lines.push_back(line.substr(begin, line.find(')') + 1 - begin));
  }
}

/// The lines of the program whose outputs `build` returns.
std::vector<std::string> program(const std::function<Tensors(Graph&)>& build,
                                 const Layouts& layouts = Layouts::single()) {
  Graph graph;
  const Tensors outputs = build(graph);
  for (size_t i = 0; i < outputs.size(); ++i) graph.set_output("output" + std::to_string(i), outputs[i]);
  const Program fused = partition(graph, layouts, {.fuse_epilogues = true});
  std::vector<std::string> lines;
  collect(fused, fused.instructions, lines);
  return lines;
}

struct Dense {
  explicit Dense(Graph& graph, DType dtype = DType::kFloat32)
      : x(graph.input("x", {kBatch, kInput}, dtype)),
        w(graph.input("w", {kInput, kHidden}, dtype)),
        b(graph.input("b", {kHidden}, dtype)),
        product(einsum({x, w}, {kBatch, kHidden})) {}
  Tensor x, w, b, product;
};

TEST(FuseEpilogues, TakesBiasAndGelu) {
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return Tensors{gelu(dense.product + dense.b)};
              }),
              ElementsAre("fused_einsum(%x, %w, %b, bias, gelu)"));
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return Tensors{gelu(add(dense.b, dense.product, {kBatch, kHidden}))};
              }),
              ElementsAre("fused_einsum(%x, %w, %b, bias, gelu)"));
  EXPECT_THAT(program([](Graph& graph) { return Tensors{gelu(Dense(graph, DType::kBFloat16).product)}; }),
              ElementsAre("fused_einsum(%x, %w, gelu)"));
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return Tensors{relu(dense.product + dense.b)};
              }),
              ElementsAre("fused_einsum(%x, %w, %b, bias)", "relu(%4)"));
}

TEST(FuseEpilogues, AddsAProductToATermThatIsKnown) {
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return Tensors{graph.input("residual", {kBatch, kHidden}) + dense.product};
              }),
              ElementsAre("fused_einsum(%x, %w, %residual, addend)"));
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return Tensors{dense.product + dense.b + graph.input("residual", {kBatch, kHidden})};
              }),
              ElementsAre("fused_einsum(%x, %w, %b, %residual, bias, addend)"));
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph, DType::kFloat64);
                return Tensors{dense.product + graph.input("residual", {kBatch, kHidden}, DType::kFloat64)};
              }),
              ElementsAre("fused_einsum(%x, %w, %residual, addend)"));
}

TEST(FuseEpilogues, AddsProductsToEachOther) {
  const auto terms = [](Graph& graph, int count) {
    Tensors products;
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(i);
      products.push_back(
          einsum({graph.input("x" + name, {kBatch, kInput}), graph.input("w" + name, {kInput, kHidden})},
                 {kBatch, kHidden}));
    }
    return products;
  };
  EXPECT_THAT(program([&](Graph& graph) { return Tensors{add_n(terms(graph, 3))}; }),
              ElementsAre("einsum(%x0, %w0)", "fused_einsum(%x1, %w1, %2, addend)",
                          "fused_einsum(%x2, %w2, %5, addend)"));
  // The term that is known first begins; one that comes later is added as before.
  EXPECT_THAT(program([&](Graph& graph) {
                const Tensor early = graph.input("early", {kBatch, kHidden});
                Tensors sum = terms(graph, 2);
                sum.insert(sum.begin(), relu(sum[1].graph().input("late", {kBatch, kHidden})));
                sum.push_back(early);
                return Tensors{add_n(sum)};
              }),
              ElementsAre("fused_einsum(%x0, %w0, %early, addend)", "fused_einsum(%x1, %w1, %3, addend)",
                          "relu(%late)", "add_n(%8, %6)"));
  // Nothing is known before the only product.
  EXPECT_THAT(program([&](Graph& graph) {
                const Tensors product = terms(graph, 1);
                return Tensors{product[0] + relu(graph.input("late", {kBatch, kHidden}))};
              }),
              ElementsAre("einsum(%x0, %w0)", "relu(%late)", "add(%2, %4)"));
}

TEST(FuseEpilogues, AddsTheGradientOfALookUpToThatOfAProduct) {
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor ids = graph.input("ids", {kBatch}, DType::kInt32),
                             table = graph.input("table", {kInput, kHidden}),
                             logits = einsum({gather(table, ids, "input"), table}, {kBatch, kInput});
                return gradients({reduce_sum(square(logits), Shape{})}, {table});
              }),
              ::testing::Contains("fused_gather_gradient(%8, %ids, %9, dimension=input)"));
}

TEST(FuseEpilogues, TakesReluWhereGradientsShowNan) {
  const auto lines = [](const std::function<Tensors(const Dense&)>& of) {
    return program([&](Graph& graph) {
      const Dense dense(graph);
      const Tensor loss = reduce_sum(square(relu(dense.product)), Shape{});
      return gradients({loss}, of(dense));
    });
  };
  EXPECT_THAT(lines([](const Dense& dense) {
                return Tensors{dense.x, dense.w};
              }),
              ::testing::Contains("fused_einsum(%x, %w, relu)"));
  // No gradient shows a NaN of the other operand.
  EXPECT_THAT(lines([](const Dense& dense) { return Tensors{dense.w}; }),
              ::testing::Contains("einsum(%x, %w)"));
  EXPECT_THAT(lines([](const Dense& dense) { return Tensors{dense.x}; }),
              ::testing::Contains("einsum(%x, %w)"));
  // The gradient of a bias shows none of it.
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                const Tensor loss = reduce_sum(square(relu(dense.product + dense.b)), Shape{});
                return gradients({loss}, {dense.x, dense.w, dense.b});
              }),
              ::testing::Contains("fused_einsum(%x, %w, %b, bias)"));
}

TEST(FuseEpilogues, LeavesWhatAProductDoesNotDo) {
  const auto expect_kept = [](const std::function<Tensors(const Dense&)>& build,
                              DType dtype = DType::kFloat32) {
    EXPECT_THAT(program([&](Graph& graph) { return build(Dense(graph, dtype)); }),
                ::testing::Contains("einsum(%x, %w)"));
  };
  // The product has other readers, or is an output.
  expect_kept([](const Dense& dense) { return Tensors{gelu(dense.product), tanh(dense.product)}; });
  expect_kept([](const Dense& dense) { return Tensors{gelu(dense.product), dense.product}; });
  // The product is added to a tensor with its rows.
  expect_kept(
      [](const Dense& dense) { return Tensors{dense.product + dense.x.graph().input("rows", {kBatch})}; });
  // The type has no epilogues, or the function is not one of them.
  expect_kept([](const Dense& dense) { return Tensors{gelu(dense.product)}; }, DType::kFloat64);
  expect_kept([](const Dense& dense) { return Tensors{relu(dense.product)}; });
  // The contraction is an inner product.
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor x = graph.input("x", {kBatch, kInput}), y = graph.input("y", {kBatch, kInput});
                return Tensors{gelu(einsum({x, y}, {kBatch}))};
              }),
              ElementsAre("einsum(%x, %y)", "gelu(%2)"));
}

TEST(FuseEpilogues, LeavesSumsThatAreReducedFirst) {
  const auto build = [](Graph& graph) {
    const Dense dense(graph);
    return Tensors{gelu(dense.product + dense.b)};
  };
  EXPECT_THAT(program(build, layouts("p:2", "batch:p")), ElementsAre("fused_einsum(%x, %w, %b, bias, gelu)"));
  EXPECT_THAT(program(build, layouts("p:2", "hidden:p")),
              ElementsAre("fused_einsum(%x, %w, %b, bias, gelu)"));
  EXPECT_THAT(program(build, layouts("p:2", "input:p")), ::testing::Contains("einsum(%x, %w)"));
}

TEST(FuseEpilogues, WaitsForABiasThatIsMadeAfterTheProduct) {
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return Tensors{gelu(dense.product + square(dense.b))};
              }),
              ElementsAre("square(%b)", "fused_einsum(%x, %w, %4, bias, gelu)"));
}

TEST(FuseEpilogues, KeepsWhatGradientsRead) {
  // The gradient of gelu reads its argument.
  EXPECT_THAT(program([](Graph& graph) {
                const Dense dense(graph);
                return gradients({reduce_sum(square(gelu(dense.product + dense.b)), Shape{})}, {dense.x});
              }),
              IsSupersetOf({"fused_einsum(%x, %w, %b, bias)", "gelu(%4)"}));
}

TEST(FuseEpilogues, AddsUpGradientsOfMicrobatchesWhereTheyAreMade) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch, kInput}), v = graph.input("v", {kInput, kHidden}),
               w = graph.input("w", {kHidden, kOutput});
  const Tensors sums = repeat(graph, 4, {}, {"batch", 4}, [&](const Tensors&) {
    const Tensor part = microbatch_slice(x);
    const Shape rows = part.shape() - kInput;
    const Tensor y = einsum({relu(einsum({part, v}, rows + kHidden)), w}, rows + kOutput);
    return LoopResult{{}, gradients({reduce_sum(square(y), Shape{})}, {v, w}), {}};
  });
  graph.set_output("dv", sums[0]);
  graph.set_output("dw", sums[1]);
  for (const bool asynchronous : {false, true}) {
    const Program fused =
        partition(graph, layouts("p:2", "batch:p"), {.asynchronous = asynchronous, .fuse_epilogues = true});
    std::vector<std::string> lines;
    collect(fused, fused.instructions, lines);
    std::vector<std::string> names;
    for (const std::string& line : lines) {
      names.push_back(line.substr(0, line.find('(')));
      EXPECT_EQ(line.ends_with(", einsum)"), names.back() == "accumulate") << line;
    }
    EXPECT_THAT(names, ElementsAre("constant", "microbatch_slice", "einsum", "relu", "einsum", "broadcast",
                                   "multiply", "scalar_multiply", "einsum", "accumulate", "relu_gradient",
                                   "accumulate", "all_reduce_start"));
  }
}

}  // namespace
}  // namespace mtf::testing
