// Tests what is fused into norms and what is not, by lines of partitioned programs, and that no bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/normalization.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/budget.h"
#include "tests/support/random_norms.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dimension kExamples{"batch", 4}, kLength{"length", 6}, kModel{"d", 8};
const Shape kNormWhole{kExamples, kLength, kModel}, kNormRows{kExamples, kLength};

/// Lines such as "rms_norm(%x, %s, %m, dimension=d, epsilon=1e-06, mask)" of the fused program.
std::vector<std::string> fused_lines(Graph& graph, const Tensors& outputs, bool with_parameters = false,
                                     const Layouts& layouts = Layouts::single()) {
  for (size_t i = 0; i < outputs.size(); ++i) graph.set_output("output" + std::to_string(i), outputs[i]);
  const Program fused = fuse_norms(lower(graph, layouts), with_parameters);
  std::vector<std::string> lines;
  for (const Instruction& instruction : fused.instructions) {
    const std::string line = to_string(fused, instruction);
    lines.push_back(line.substr(0, line.find(')') + 1));
  }
  return lines;
}

struct Operands {
  explicit Operands(Graph& graph, DType dtype = DType::kFloat32)
      : x(graph.input("x", kNormWhole, dtype)),
        dy(graph.input("dy", kNormWhole, dtype)),
        scale(graph.input("s", {kModel}, dtype)),
        bias(graph.input("b", {kModel}, dtype)),
        mask(graph.input("m", kNormRows, dtype)) {}
  Tensor masked(const Tensor& y) const { return multiply(y, mask, kNormWhole); }
  Tensor x, dy, scale, bias, mask;
};

TEST(FuseNorms, TakesMasks) {
  Graph graph;
  const Operands o(graph);
  EXPECT_THAT(fused_lines(graph, {o.masked(rms_norm(o.x, "d", o.scale)),
                                  multiply(o.mask, layer_norm(o.x, "d", o.scale, o.bias), kNormWhole)}),
              ElementsAre("%6, %5 = rms_norm(%x, %s, %m, dimension=d, epsilon=1e-06, mask)",
                          "%10, %8, %9 = layer_norm(%x, %s, %b, %m, dimension=d, epsilon=1e-06, mask)"));
}

TEST(FuseNorms, TakesTheMaskWhereItIsKnown) {
  Graph graph;
  const Operands o(graph);
  const Tensor y = rms_norm(o.x, "d", o.scale);
  EXPECT_THAT(
      fused_lines(graph, {multiply(y, square(o.mask), kNormWhole)}),
      ElementsAre("%5 = square(%m)", "%6, %4 = rms_norm(%x, %s, %5, dimension=d, epsilon=1e-06, mask)"));
}

/// The program of h = x + mask * layer_norm(x) and its gradients.
std::vector<std::string> gradient_lines(bool with_parameters) {
  Graph graph;
  const Operands o(graph);
  const Tensor h = o.x + o.masked(layer_norm(o.x, "d", o.scale, o.bias));
  return fused_lines(graph, gradients({h}, {o.x, o.scale, o.bias}, {o.dy}), with_parameters);
}

TEST(FuseNorms, TakesMasksAndAddendsOfGradients) {
  EXPECT_THAT(
      gradient_lines(false),
      ElementsAre(HasSubstr(" = layer_norm(%x, %s, %b, dimension=d, epsilon=1e-06)"),
                  "%12 = layer_norm_gradient(%x, %s, %dy, %6, %7, %m, %dy, dimension=d, mask, addend)",
                  "%10, %11 = layer_norm_parameter_gradient(%x, %dy, %6, %7, %m, dimension=d, mask)"));
}

TEST(FuseNorms, TakesParametersOfGradientsWhereKernelsDo) {
  EXPECT_THAT(
      gradient_lines(true),
      ElementsAre(HasSubstr(" = layer_norm(%x, %s, %b, dimension=d, epsilon=1e-06)"),
                  "%12, %10, %11 = layer_norm_gradient(%x, %s, %dy, %6, %7, %m, %dy, dimension=d, mask, "
                  "addend, parameters)"));
}

TEST(FuseNorms, LeavesWhatOthersRead) {
  {
    Graph graph;
    const Operands o(graph);
    const Tensor y = rms_norm(o.x, "d", o.scale);
    EXPECT_THAT(fused_lines(graph, {o.masked(y), square(y)}), Contains(HasSubstr("multiply(")));
  }
  Graph graph;
  const Operands o(graph);
  const Tensor y = rms_norm(o.x, "d", o.scale), dy = o.masked(o.dy), dx = gradients({y}, {o.x}, {dy})[0];
  EXPECT_THAT(fused_lines(graph, {square(dy), square(dx), add_n({dx, o.dy})}),
              ::testing::AllOf(Contains(HasSubstr("multiply(")), Contains(HasSubstr("add_n("))));
}

TEST(FuseNorms, LeavesFactorsThatAreNoMasksOfRows) {
  for (const Shape& shape : {Shape{kExamples}, Shape{kModel}, Shape{kLength, kExamples}, kNormWhole}) {
    Graph graph;
    const Operands o(graph);
    const Tensor y = rms_norm(o.x, "d", o.scale);
    EXPECT_THAT(fused_lines(graph, {multiply(y, graph.input("factor", shape), kNormWhole)}),
                Contains(HasSubstr("multiply(")));
  }
}

TEST(FuseNorms, LeavesSumsOfThreeAndMovesNothingAcrossCollectives) {
  const auto gradient = [](const Operands& o) {
    return gradients({rms_norm(o.x, "d", o.scale)}, {o.x}, {o.dy})[0];
  };
  {
    Graph graph;
    const Operands o(graph);
    EXPECT_THAT(fused_lines(graph, {add_n({gradient(o), o.x, o.dy})}), Contains(HasSubstr("add_n(")));
  }
  Graph graph;
  const Operands o(graph);
  const Dimension inner{"inner", 4};
  const Tensor product =
      einsum({graph.input("u", {kExamples, kLength, inner}), graph.input("v", {inner, kModel})}, kNormWhole);
  EXPECT_THAT(fused_lines(graph, {add_n({product, gradient(o)})}, false, layouts("p:2", "inner:p")),
              ElementsAre(HasSubstr("einsum("), HasSubstr("rms_norm("), HasSubstr("rms_norm_gradient("),
                          HasSubstr("all_reduce("), HasSubstr("add_n(")));
}

TEST(FuseNorms, LeavesASplitDimensionToPlainOperations) {
  Graph graph;
  const Operands o(graph);
  const std::vector<std::string> lines =
      fused_lines(graph, {o.masked(rms_norm(o.x, "d", o.scale))}, false, layouts("p:2", "d:p"));
  EXPECT_THAT(lines, ::testing::Not(Contains(HasSubstr("rms_norm("))));
  EXPECT_THAT(lines.back(), HasSubstr("multiply("));
}

TEST(FuseNorms, KeepsEveryBit) {
  const std::pair<const char*, const char*> meshes[] = {
      {"p:1", ""}, {"p:2", "a:p"}, {"q:2", "n:q"}, {"p:2;q:2", "a:p;n:q"}, {"p:8", "a:p"}};
  int with_addend = 0;
  for (int seed = 0; seed < tries(150); ++seed) {
    NormLayers layers;
    layers.dtype = seed % 3 == 0 ? DType::kFloat32 : seed % 3 == 1 ? DType::kBFloat16 : DType::kFloat64;
    layers.masked = seed % 4 != 0;
    layers.microbatches = seed % 5 == 0 ? 2 : 1;
    layers.recomputed = seed % 7 == 0;
    const RandomNorms random = random_norms(static_cast<uint32_t>(seed), layers);
    const auto& [mesh, layout] = meshes[static_cast<size_t>(seed) % std::size(meshes)];
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << random.text << ", " << layout);
    const Program lowered = lower(*random.graph, layouts(mesh, layout)), fused = fuse_norms(lowered, false);
    const MeshRun expected = run_program(reuse_memory(split_collectives(lowered)), random.feeds);
    EXPECT_EQ(run_program(reuse_memory(split_collectives(fused)), random.feeds).outputs, expected.outputs);
    with_addend += fused.to_string().find(", addend)") != std::string::npos;
    if (HasFailure()) return;
  }
  EXPECT_GT(with_addend, 0);
}

}  // namespace
}  // namespace mtf::testing
