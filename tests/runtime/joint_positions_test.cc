// Positions of one process whose instructions one call computes: results are those of each position by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/backend/backend.h"
#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/runtime/position_sums.h"
#include "engine/runtime/prepared_program.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kBatch{"batch", 48}, kIn{"in", 70}, kHidden{"hidden", 132}, kClasses{"classes", 10};

/// A step of gradient descent on two layers.
void build_step(Graph& graph) {
  const auto weight = [&](const std::string& name, const Shape& shape) {
    return graph.read(graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.1)));
  };
  const Tensor w1 = weight("w1", {kIn, kHidden}), b1 = weight("b1", {kHidden}),
               w2 = weight("w2", {kHidden, kClasses});
  const Tensors weights{w1, b1, w2};
  const Tensor x = graph.input("x", {kBatch, kIn});
  const Tensor h = relu(einsum({x, w1}, {kBatch, kHidden}) + b1);
  const Tensor loss = reduce_mean(square(einsum({h, w2}, {kBatch, kClasses})), Shape{});
  graph.set_output("loss", loss);
  const Tensors g = gradients({loss}, weights);
  const char* const names[] = {"w1", "b1", "w2"};
  for (size_t i = 0; i < 3; ++i)
    graph.assign(*graph.find_variable(names[i]), sgd_update(weights[i], g[i], graph.constant(0.1)));
}

std::map<std::string, Values> feeds() {
  Values x;
  for (int64_t i = 0; i < kBatch.size * kIn.size; ++i) x.push_back(std::sin(0.1 * static_cast<double>(i)));
  return {{"x", x}};
}

struct Case {
  std::string mesh, layout;
  int joint,
      totals;  ///< instructions that one call computes for several positions; whose sum is made at once
};

const Case kCases[] = {{"all:2", "batch:all", 3, 2},
                       {"all:3", "batch:all", 3, 2},
                       {"all:8", "batch:all", 3, 2},
                       {"rows:2;cols:2", "batch:rows;hidden:cols", 2, 3},
                       {"rows:3;cols:2", "batch:rows", 3, 2}};

TEST(JointPositions, DoNotChangeABit) {
  Graph graph;
  build_step(graph);
  for (const Case& c : kCases) {
    MeshRunOptions options;
    options.steps = 3;
    const MeshRun alone = run_on_mesh(graph, layouts(c.mesh, c.layout), feeds(), options);
    options.check_replicas = false;
    for (const int threads : {1, 2, 5}) {
      options.threads = threads;
      const MeshRun joint = run_on_mesh(graph, layouts(c.mesh, c.layout), feeds(), options);
      EXPECT_EQ(joint.outputs, alone.outputs) << c.mesh << " " << c.layout << " " << threads;
      EXPECT_EQ(joint.variables, alone.variables) << c.mesh << " " << c.layout << " " << threads;
      EXPECT_DOUBLE_EQ(joint.counters.flops_per_position, alone.counters.flops_per_position) << c.mesh;
      EXPECT_DOUBLE_EQ(joint.counters.bytes_per_position, alone.counters.bytes_per_position) << c.mesh;
    }
  }
}

/// Calls look(step) for each step of the program on the processor.
template <class Look>
void for_each_step(const Program& program, bool replicate, const Look& look) {
  const std::unique_ptr<Backend> backend = make_cpu_backend();
  VariableStore variables(*backend, program.mesh, program.variables, {.replicate = replicate});
  InProcessCommunicator communicator;
  Workspace workspace(*backend, 1);
  const PreparedProgram prepared(program, *backend, communicator, variables, workspace, 1, replicate);
  for (const PreparedSegment& segment : prepared.segments()) {
    if (const auto* local = std::get_if<KernelSteps>(&segment.steps))
      std::ranges::for_each(local->steps, look);
  }
}

TEST(JointPositions, MultiplyByWhatTheyShareAndSumAtOnce) {
  Graph graph;
  build_step(graph);
  for (const Case& c : kCases) {
    const Program program = partition(graph, layouts(c.mesh, c.layout));
    for (const bool replicate : {false, true}) {
      int joint = 0, totals = 0;
      for_each_step(program, replicate, [&](const KernelStep& step) {
        joint += !step.at.grouped.empty();
        totals += step.results != step.instruction->outputs;
      });
      EXPECT_EQ(joint, replicate ? 0 : c.joint) << c.mesh << " " << c.layout << "\n" << program.to_string();
      EXPECT_EQ(totals, replicate ? 0 : c.totals) << c.mesh << " " << c.layout << "\n" << program.to_string();
    }
  }
}

TEST(PositionSums, AreThoseOfTermsThatNothingElseReads) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch, kIn}), y = graph.input("y", {kBatch, kHidden});
  const Tensor sum = einsum({x, y}, {kIn, kHidden});
  graph.set_output("square", square(sum));
  graph.set_output("linear", square(negative(einsum({y, x}, {kIn, kHidden}))));  // stays a partial sum
  const Program program = partition(graph, layouts("all:4", "batch:all"));
  const HostedMesh mesh(program.mesh);
  const std::map<ValueId, PositionSum> sums = position_sums(program, mesh, false);
  ASSERT_EQ(sums.size(), 1u) << program.to_string();
  const auto& [term, found] = *sums.begin();
  EXPECT_EQ(found.reduction->outputs[0], found.total);
  EXPECT_EQ(found.reduction->inputs[0], term);
  EXPECT_TRUE(position_sums(program, mesh, true).empty());
  EXPECT_TRUE(position_sums(program, HostedMesh(program.mesh, {2, 0}), false).empty());
  EXPECT_TRUE(position_sums(partition(graph, Layouts::single()), HostedMesh(), false).empty());
}

/// The total is in memory from its first term on; the search names the product.
TEST(PositionSums, TheSearchForNonFiniteValuesNamesTheProduct) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch, kIn}), y = graph.input("y", {kBatch, kHidden});
  graph.set_output("square", square(einsum({x, y}, {kIn, kHidden})));
  const Program program = partition(graph, layouts("all:4", "batch:all"));
  const std::unique_ptr<Backend> backend = make_cpu_backend();
  VariableStore variables(*backend, program.mesh, program.variables);
  Executor executor(program, *backend, variables, {.threads = 1});
  const std::vector<float> large(static_cast<size_t>(kBatch.size * kHidden.size), 3e38F);
  executor.feed("x", large.data());
  executor.feed("y", large.data());
  const std::optional<NonFinite> found = executor.first_non_finite(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->operation, "einsum");
  EXPECT_EQ(found->infinities, kIn.size * kHidden.size);
}

}  // namespace
}  // namespace mtf::testing
