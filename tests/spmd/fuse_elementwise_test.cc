// Tests which elementwise operations are fused into one instruction and which are not, by lines of
// partitioned programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/runtime/memory_plan.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dimension kRows{"rows", 8}, kColumns{"columns", 6};
const Shape kShape{kRows, kColumns};

/// Appends lines such as "add(%x, %y)", including those in the bodies of loops.
void collect(const Program& program, const std::vector<Instruction>& block, std::vector<std::string>& lines) {
  for (const Instruction& instruction : block) {
    collect(program, instruction.body(), lines);
    if (instruction.is<action::Loop>() || instruction.is<action::Done>()) continue;
    const std::string line = to_string(program, instruction);
    const size_t begin = line.find("= ") + 2;
    lines.push_back(line.substr(begin, line.rfind(") ") + 1 - begin));
  }
}

std::vector<std::string> lines_of(const Program& program) {
  std::vector<std::string> lines;
  collect(program, program.instructions, lines);
  return lines;
}

/// The lines of the program whose outputs `build` returns.
std::vector<std::string> program(const std::function<Tensors(Graph&)>& build,
                                 const Layouts& layouts = Layouts::single()) {
  Graph graph;
  const Tensors outputs = build(graph);
  for (size_t i = 0; i < outputs.size(); ++i) graph.set_output("output" + std::to_string(i), outputs[i]);
  return lines_of(partition(graph, layouts, {.fuse_elementwise = true}));
}

Tensor input(Graph& graph, const char* name, const Shape& shape = kShape, DType dtype = DType::kFloat32) {
  return graph.input(name, shape, dtype);
}

TEST(FuseElementwise, JoinsFusionsAndTrees) {
  EXPECT_THAT(
      program([](Graph& graph) { return Tensors{dropout(input(graph, "x"), 0.5) + input(graph, "y")}; }),
      ElementsAre("fused_elementwise(%x, %y, #2 = dropout(#0, rate=0.5, name=dropout); #3 = add(#2, #1))"));
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor x = input(graph, "x"), y = input(graph, "y");
                const Tensor e = exp(x);
                return Tensors{cast(e * tanh(y - x), DType::kBFloat16)};
              }),
              ElementsAre("fused_elementwise(%x, %y, #2 = exp(#0); #3 = subtract(#1, #0); #4 = tanh(#3); "
                          "#5 = multiply(#2, #4); #6 = cast(#5, bf16))"));
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor x = input(graph, "x");
                const Tensors dx = gradients({reduce_sum(tanh(square(x)), Shape{})}, {x});
                return dx;
              }),
              Contains(HasSubstr("tanh_gradient(")));
}

TEST(FuseElementwise, RepeatsOperandsThatAreSmaller) {
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor x = input(graph, "x"), scale = input(graph, "scale", {kRows}),
                             bias = input(graph, "bias", {kColumns}),
                             factor = input(graph, "factor", Shape{});
                return Tensors{relu(x * scale + bias) * factor};
              }),
              ElementsAre("fused_elementwise(%x, %scale, %bias, %factor, #4 = multiply(#0, #1); "
                          "#5 = add(#4, #2); #6 = relu(#5); #7 = multiply(#6, #3))"));
  EXPECT_THAT(program([](Graph& graph) {
                return Tensors{broadcast(input(graph, "x", {kColumns}), kShape) * input(graph, "y")};
              }),
              ElementsAre("fused_elementwise(%x, %y, #2 = broadcast(#0); #3 = multiply(#2, #1))"));
}

TEST(FuseElementwise, LeavesWhatIsMadeForSmallerShapes) {
  EXPECT_THAT(program([](Graph& graph) {
                return Tensors{input(graph, "x") + square(input(graph, "bias", {kColumns}))};
              }),
              ElementsAre("square(%bias)", "add(%x, %1)"));
  // The dimensions are the same, but in another order.
  EXPECT_THAT(program([](Graph& graph) {
                return Tensors{add(input(graph, "x"), square(input(graph, "y", {kColumns, kRows})), kShape)};
              }),
              ElementsAre("square(%y)", "add(%x, %1)"));
}

TEST(FuseElementwise, GivesWhatOthersReadAsFurtherResults) {
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor y = exp(input(graph, "x"));
                return Tensors{y, negative(y)};
              }),
              ElementsAre("fused_elementwise(%x, #1 = exp(#0); #2 = negative(#1); results #2, #1)"));
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor y = exp(input(graph, "x"));
                return Tensors{negative(y), reduce_sum(y, {kRows})};
              }),
              ElementsAre("fused_elementwise(%x, #1 = exp(#0); #2 = negative(#1); results #2, #1)",
                          "reduce_sum(%1)"));
  // One fusion has several readers of a value.
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor y = exp(input(graph, "x"));
                return Tensors{y * tanh(y)};
              }),
              ElementsAre("fused_elementwise(%x, #1 = exp(#0); #2 = tanh(#1); #3 = multiply(#1, #2))"));
}

TEST(FuseElementwise, LeavesWhatOthersReadBefore) {
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor y = exp(input(graph, "x"));
                return Tensors{y * reduce_sum(y, {kRows})};
              }),
              ElementsAre("exp(%x)", "reduce_sum(%1)", "multiply(%1, %2)"));
  // The readers are in two fusions.
  EXPECT_THAT(
      program([](Graph& graph) {
        const Tensor y = exp(input(graph, "x"));
        return Tensors{negative(y), tanh(y)};
      }),
      ElementsAre("fused_elementwise(%x, #1 = exp(#0); #2 = negative(#1); results #2, #1)", "tanh(%1)"));
}

TEST(FuseElementwise, TakesConstantsThatOnlyElementwiseOperationsRead) {
  EXPECT_THAT(
      program([](Graph& graph) {
        const Tensor x = input(graph, "x"), zero = graph.constant(0, DType::kFloat32);
        return Tensors{where(less(x, zero), zero, x)};
      }),
      ElementsAre("fused_elementwise(%x, #1 = constant(0); #2 = less(#0, #1); #3 = where(#2, #1, #0))"));
  // Two fusions each have a copy of the constant.
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor x = input(graph, "x"), two = graph.constant(2, DType::kFloat32);
                return Tensors{x + two, x * two};
              }),
              ElementsAre("fused_elementwise(%x, #1 = constant(2); #2 = add(#0, #1))",
                          "fused_elementwise(%x, #1 = constant(2); #2 = multiply(#0, #1))"));
  EXPECT_THAT(program([](Graph& graph) {
                const Tensor x = input(graph, "x"), two = graph.constant(2, DType::kFloat32);
                return Tensors{x + two, two};
              }),
              Contains("add(%x, %1)"));
}

TEST(FuseElementwise, NothingMovesAcrossCollectives) {
  const auto build = [](Graph& graph) {
    const Tensor sum = reduce_sum(input(graph, "x"), {kColumns});
    return Tensors{tanh(scalar_multiply(sum, 2))};
  };
  EXPECT_THAT(program(build), Contains(HasSubstr("fused_elementwise(")));
  EXPECT_THAT(program(build, layouts("p:2", "rows:p")),
              ElementsAre("reduce_sum(%x)", HasSubstr("scalar_multiply("), HasSubstr("all_reduce"),
                          HasSubstr("tanh(")));
  EXPECT_THAT(program(build, layouts("p:2", "columns:p")), Contains(HasSubstr("fused_elementwise(")));
}

TEST(FuseElementwise, KeepsWithinTheLimits) {
  const std::vector<std::string> lines = program([](Graph& graph) {
    Tensor sum = input(graph, "x");
    for (int i = 0; i < 20; ++i) sum = sum + exp(input(graph, ("x" + std::to_string(i)).c_str()));
    for (int i = 0; i < 30; ++i) sum = tanh(sum);
    return Tensors{sum};
  });
  EXPECT_GT(lines.size(), 3u);
  EXPECT_LT(lines.size(), 12u);
}

/// A sum whose terms die with it is not delayed until its distant reader, unless that reader runs early.
TEST(FuseElementwise, TakesNoMoreMemoryThanBefore) {
  const Dimension large{"large", 100'000};
  const auto build = [&](Graph& graph, bool needs_late) {
    const Tensor x = input(graph, "x", {large});
    const Tensor sum = cumsum(x, "large") + cumsum(square(x), "large");
    const Tensor late = cumsum(cumsum(cumsum(x, "large"), "large"), "large");
    graph.set_output("y", needs_late ? sum * late : tanh(sum));
    if (!needs_late) graph.set_output("late", late);
  };
  for (const bool needs_late : {false, true}) {
    Graph graph;
    build(graph, needs_late);
    const Program plain = partition(graph, Layouts::single()),
                  fused = partition(graph, Layouts::single(), {.fuse_elementwise = true});
    EXPECT_LE(plan_memory(fused).position().temporaries, plan_memory(plain).position().temporaries)
        << fused.to_string();
    EXPECT_EQ(fused.to_string().find("fused_elementwise") == std::string::npos, needs_late)
        << fused.to_string();
  }
}

TEST(FuseElementwise, UpdatesVariablesWhereTheyStand) {
  Graph graph;
  const Variable& slot = graph.variable("slot", kShape, DType::kFloat32, Initializer::zeros());
  const Tensor x = input(graph, "x"), decay = input(graph, "decay", Shape{});
  const Tensor decayed = graph.read(slot) * decay;
  graph.assign(slot, decayed + square(x));
  const Program updated = partition(graph, Layouts::single(), {.fuse_elementwise = true});
  EXPECT_THAT(lines_of(updated), ElementsAre(HasSubstr("fused_elementwise(%slot, %decay, %x")));
  EXPECT_EQ(updated.root(updated.instructions[0].outputs[0]), updated.variables[0].value);
}

/// Each of two results takes over the memory of a different operand that dies.
TEST(FuseElementwise, OverwritesWhatDies) {
  Graph graph;
  const Tensor a = cumsum(input(graph, "x"), "rows"), b = cumsum(input(graph, "y"), "rows"), sum = a + b;
  const Tensor t = tanh(sum);
  graph.set_output("left", cumsum(t, "rows") + cumsum(sum, "columns"));
  const Program fused = partition(graph, Layouts::single(), {.fuse_elementwise = true});
  const auto fusion = std::ranges::find_if(
      fused.instructions, [](const Instruction& instruction) { return instruction.outputs.size() == 2; });
  ASSERT_NE(fusion, fused.instructions.end()) << fused.to_string();
  EXPECT_EQ(fused.values[fusion->outputs[0]].alias, fusion->inputs[0]);
  EXPECT_EQ(fused.values[fusion->outputs[1]].alias, fusion->inputs[1]);
}

TEST(FuseElementwise, WorksInLoops) {
  Graph graph;
  const Tensor x = input(graph, "x");
  const Tensors sums = repeat(graph, 4, {}, {"rows", 4}, [&](const Tensors&) {
    return LoopResult{{}, {reduce_sum(exp(negative(microbatch_slice(x))), Shape{})}, {}};
  });
  graph.set_output("sum", sums[0]);
  EXPECT_THAT(lines_of(partition(graph, Layouts::single(), {.fuse_elementwise = true})),
              Contains(HasSubstr("#1 = negative(#0); #2 = exp(#1)")));
}

}  // namespace
}  // namespace mtf::testing
