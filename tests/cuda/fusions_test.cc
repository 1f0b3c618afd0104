// Programs with fused elementwise operations give the same bits as programs without.
#include <gtest/gtest.h>

#include "engine/ops/binary.h"
#include "engine/ops/fused_elementwise.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/spmd/passes/passes.h"
#include "tests/cuda/run_on.h"
#include "tests/support/budget.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/random_fusions.h"
#include "tests/support/random_graph.h"

namespace mtf::testing {
namespace {

class Fusions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_device().fuses_elementwise()) {
      ASSERT_FALSE(is_gpu_required()) << "the device compiles no kernels";
      GTEST_SKIP() << "the device compiles no kernels";
    }
  }
};

size_t fused_steps(const std::vector<Instruction>& block) {
  size_t steps = 0;
  for (const Instruction& instruction : block) {
    steps += fused_steps(instruction.body());
    const auto* fused = dynamic_cast<const FusedElementwise*>(instruction.operation());
    if (fused != nullptr) steps += fused->steps().size();
  }
  return steps;
}

TEST_F(Fusions, HaveTheBitsOfSeparateInstructions) {
  const Shape shapes[] = {{{"a", 4}, {"b", 6}, {"c", 16}}, {{"a", 4}, {"b", 5}}, {{"a", 74}}, Shape{}};
  size_t steps = 0, operations = 0;
  for (int seed = 0; seed < tries(60); ++seed) {
    const Shape& shape = shapes[seed % std::size(shapes)];
    const RandomFusions random = random_fusions(seed, shape, 24);
    const bool splits = seed % 3 == 1 && shape.rank() > 0;
    const Layouts layouts = mtf::testing::layouts(splits ? "p:2" : "p:1", splits ? "a:p" : "");
    const Program plain = partition(*random.graph, layouts),
                  fused = partition(*random.graph, layouts, {.fuse_elementwise = true});
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + fused.to_string());
    expect_same_bits(run_on(cuda_device(), fused, random.feeds), run_on(cuda_device(), plain, random.feeds));
    if (HasFailure()) return;
    steps += fused_steps(fused.instructions);
    operations += plain.instructions.size();
  }
  EXPECT_GT(steps, operations / 3);
}

/// Programs include loops, collectives between positions that share the device, and guarded updates.
TEST_F(Fusions, LeaveProgramsAsTheyAre) {
  size_t steps = 0;
  for (int seed = 0; seed < tries(40); ++seed) {
    const RandomGraph random = random_graph(seed);
    const auto layouts = random_layouts(seed, *random.graph, seed % 2 == 0 ? "p:1" : "p:2;q:2");
    if (layouts == nullptr) continue;
    const bool asynchronous = seed % 3 == 0;
    const Program plain = partition(*random.graph, *layouts, {.asynchronous = asynchronous}),
                  fused = partition(*random.graph, *layouts,
                                    {.asynchronous = asynchronous, .fuse_elementwise = true});
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + fused.to_string());
    expect_same_bits(run_on(cuda_device(), fused, random.feeds), run_on(cuda_device(), plain, random.feeds));
    if (HasFailure()) return;
    steps += fused_steps(fused.instructions);
  }
  EXPECT_GT(steps, 100u);
}

/// A moving average is updated in place, unless its guard is false.
TEST_F(Fusions, UpdateVariablesUnderGuards) {
  const Shape shape{{"a", 70}};
  for (const double limit : {-1.0, 1e9}) {
    Graph graph;
    const Variable& average = graph.variable("average", shape, DType::kFloat32, Initializer::normal(1));
    const Tensor x = graph.input("x", shape);
    graph.assign(average, scalar_multiply(graph.read(average), 0.9) + scalar_multiply(square(x), 0.1),
                 less(reduce_sum(square(x), Shape{}), graph.constant(limit)));
    const std::map<std::string, Values> feeds{{"x", random_normal_values(70, 1)}};
    const Program fused = partition(graph, Layouts::single(), {.fuse_elementwise = true});
    EXPECT_GT(fused_steps(fused.instructions), 3u) << fused.to_string();
    expect_same_bits(run_on(cuda_device(), fused, feeds),
                     run_on(cuda_device(), partition(graph, Layouts::single()), feeds));
  }
}

}  // namespace
}  // namespace mtf::testing
