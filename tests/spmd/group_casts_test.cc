// Tests which casts of variables are merged into one instruction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/graph/gradients.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kCastExamples{"examples", 8}, kCastWidth{"width", 4};

/// The casts of a model of three layers with weights in float32 that are read as bfloat16.
std::vector<std::string> casts(bool training, const Layouts& layouts) {
  Graph graph;
  Tensor x = graph.input("x", {kCastExamples, kCastWidth}, DType::kBFloat16);
  Tensors weights;
  for (const char* name : {"u", "v", "w"}) {
    weights.push_back(
        graph.read(graph.variable(name, {kCastWidth, {"hidden", 4}}, DType::kFloat32, Initializer::ones())));
    const auto domain = graph.domain(Domain::kParameter);
    const Tensor weight = cast(weights.back(), DType::kBFloat16);
    const auto activations = graph.domain(Domain::kActivation);
    x = rename(tanh(einsum({x, weight}, {kCastExamples, {"hidden", 4}})), "hidden", "width");
  }
  const Tensor loss = reduce_sum(cast(x, DType::kFloat32), Shape{});
  graph.set_output("loss", loss);
  if (training) {
    const Tensors dw = gradients({loss}, weights);
    for (size_t i = 0; i < dw.size(); ++i) graph.set_output("d" + std::to_string(i), dw[i]);
  }
  const Program program = partition(graph, layouts, {.group_variables = true});
  std::vector<std::string> lines;
  for (const Instruction& instruction : program.instructions) {
    const std::string_view name = name_of(instruction);
    if (name != "cast" && name != "multi_tensor") continue;
    const std::string line = to_string(program, instruction);
    const size_t begin = line.find("= ") + 2;
    lines.push_back(line.substr(begin, line.find(')') + 1 - begin));
  }
  return lines;
}

TEST(GroupCasts, JoinsThoseThatTheBackwardPassReads) {
  // The gradient of the first layer's input is not wanted, so its weight is read once.
  EXPECT_THAT(casts(true, Layouts::single()),
              ::testing::IsSupersetOf({"cast(%u, bf16)", "multi_tensor(%v, %w, 2 cast)"}));
  EXPECT_THAT(casts(true, layouts("p:2", "hidden:p")), ::testing::Contains("multi_tensor(%v, %w, 2 cast)"));
}

TEST(GroupCasts, LeavesThemApartWithoutABackwardPass) {
  EXPECT_THAT(casts(false, Layouts::single()),
              ::testing::Not(::testing::Contains(::testing::HasSubstr("multi"))));
}

TEST(GroupCasts, LeavesThoseThatAreGathered) {
  EXPECT_THAT(casts(true, layouts("p:2", "examples:p", "width:p")),
              ::testing::Not(::testing::Contains(::testing::HasSubstr("multi"))));
}

}  // namespace
}  // namespace mtf::testing
