// Tests which operations are made once, by lines of programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

const Dimension kItems{"items", 8}, kFields{"fields", 4};

/// Appends lines such as "add(%x, %3)", including those in the bodies of loops.
void collect_lines(const Program& program, const std::vector<Instruction>& block,
                   std::vector<std::string>& lines) {
  for (const Instruction& instruction : block) {
    collect_lines(program, instruction.body(), lines);
    if (instruction.is<action::Loop>()) continue;
    const std::string line = to_string(program, instruction);
    const size_t begin = line.find("= ") + 2;
    lines.push_back(line.substr(begin, line.find(')') + 1 - begin));
  }
}

std::vector<std::string> shared(const std::function<Tensors(Graph&)>& build,
                                const Layouts& layouts = Layouts::single()) {
  Graph graph;
  const Tensors outputs = build(graph);
  for (size_t i = 0; i < outputs.size(); ++i) graph.set_output("output" + std::to_string(i), outputs[i]);
  const Program program = share_operations(lower(graph, layouts));
  std::vector<std::string> lines;
  collect_lines(program, program.instructions, lines);
  return lines;
}

TEST(ShareOperations, MakesEqualResultsOnce) {
  EXPECT_THAT(shared([](Graph& graph) {
                const Tensor x = graph.input("x", {kItems, kFields});
                return Tensors{negative(cast(x, DType::kBFloat16)), square(cast(x, DType::kBFloat16))};
              }),
              ElementsAre("cast(%x, bf16)", "negative(%1)", "square(%1)"));
  // What equal operations do with equal results is equal as well, on slices too.
  EXPECT_THAT(shared(
                  [](Graph& graph) {
                    const Tensor x = graph.input("x", {kItems, kFields});
                    return Tensors{tanh(scalar_add(x, 2)), tanh(scalar_add(x, 2))};
                  },
                  layouts("p:2", "items:p")),
              ElementsAre("scalar_add(%x, 2)", "tanh(%1)"));
}

TEST(ShareOperations, KeepsApartWhatDiffers) {
  EXPECT_THAT(shared([](Graph& graph) {
                const Tensor x = graph.input("x", {kItems, kFields}), y = graph.input("y", {kItems, kFields});
                return Tensors{scalar_add(x, 2), scalar_add(x, 3), scalar_add(y, 2),
                               cast(x, DType::kBFloat16), cast(x, DType::kInt32)};
              }),
              ElementsAre("scalar_add(%x, 2)", "scalar_add(%x, 3)", "scalar_add(%y, 2)", "cast(%x, bf16)",
                          "cast(%x, i32)"));
  EXPECT_THAT(shared([](Graph& graph) {
                const Tensor x = graph.input("x", {kItems, kFields});
                return Tensors{dropout(x, 0.5), dropout(x, 0.5)};
              }),
              ::testing::SizeIs(2));
}

TEST(ShareOperations, MakesConstantsOnceInEachBlock) {
  EXPECT_THAT(shared([](Graph& graph) {
                const Tensor x = graph.input("x", {kItems, kFields});
                const auto plus = [&](const Tensor& t) {
                  return add(t, graph.constant(3, t.dtype(), t.shape()));
                };
                Tensors sums = repeat(graph, 2, {x}, {}, [&](const Tensors& carried) {
                  return LoopResult{{plus(plus(carried[0]))}, {}, {}};
                });
                return Tensors{plus(plus(sums[0]))};
              }),
              ElementsAre("copy(%x)", "constant(3)", "add(%1, %2)", "add(%3, %2)", "copy(%5)", "constant(3)",
                          "add(%1, %6)", "add(%7, %6)"));
}

TEST(ShareOperations, ReadsAgainWhatHasBeenWritten) {
  EXPECT_THAT(shared([](Graph& graph) {
                const Tensor x = graph.input("x", {kItems, kFields});
                const Tensors after = repeat(graph, 2, {x}, {}, [&](const Tensors& carried) {
                  return LoopResult{{negative(carried[0])}, {}, {}};
                });
                return Tensors{square(x), square(after[0])};
              }),
              ElementsAre("copy(%x)", "negative(%1)", "copy(%2)", "square(%x)", "square(%1)"));
}

TEST(ShareOperations, KeepsLittleAliveForTheBackwardPass) {
  const auto casts = [](int64_t rows) {
    Graph graph;
    const Tensor x = graph.input("x", {{"items", rows}, kFields});
    Tensor sum = reduce_sum(cast(x, DType::kBFloat16), Shape{});
    {
      const Graph::Scope backward = graph.phase(Phase::kBackward);
      sum = sum + reduce_sum(square(cast(x, DType::kBFloat16)), Shape{});
    }
    graph.set_output("sum", sum);
    const Program program = share_operations(lower(graph, Layouts::single()));
    return std::ranges::count_if(program.instructions,
                                 [](const Instruction& i) { return name_of(i) == "cast"; });
  };
  EXPECT_EQ(casts(kSharedBytes / 8), 1);
  EXPECT_EQ(casts(kSharedBytes / 8 + 1), 2);
}

}  // namespace
}  // namespace mtf::testing
