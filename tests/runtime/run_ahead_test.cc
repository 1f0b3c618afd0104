// Programs that run ahead of the host: the next step is fed and begun before the last one is looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/graph/graph.h"
#include "engine/ops/binary.h"
#include "engine/ops/concat.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/runtime/executor.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSize = 1000;

/// total += sum(x) * scale where `finite` holds, which it does if x and the input "proceed" do.
Program running_total(const char* mesh, const char* layout) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", kSize}}), scale = graph.input("scale", {});
  const Tensor sum = reduce_sum(x, Shape{});
  const Tensor finite = logical_and(all_finite({sum}), graph.input("proceed", {}, DType::kBool));
  const Variable& total = graph.variable("total", {}, DType::kFloat32, Initializer::zeros());
  const Tensor next = add(graph.read(total), multiply(sum, scale));
  graph.assign(total, next, finite);
  graph.set_output("sum", sum);
  graph.set_output("total", next);
  graph.set_output("finite", finite);
  graph.set_output("both", concat({reshape(next, {{"two", 1}}), reshape(sum, {{"two", 1}})}, "two"));
  return partition(graph, layouts(mesh, layout));
}

class RunAhead : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  RunAhead() { variables.initialize(1); }

  void begin(float each, double scale, uint64_t step) {
    const std::vector<float> x(kSize, each);
    executor.feed("x", x.data());
    executor.feed_scalar("scale", scale);
    executor.run(step);
  }

  Program program = running_total(GetParam().first, GetParam().second);
  std::shared_ptr<Backend> backend = test_backend();
  VariableStore variables{*backend, program.mesh, program.variables};
  Executor executor{program, *backend, variables, {.threads = 2}};
};

TEST_P(RunAhead, FeedsAndReportsStepAfterStep) {
  executor.report({"both", "sum"});
  executor.feed_scalar("proceed", 1);
  begin(1, 1, 0);
  double total = 1000;
  for (int step = 1; step < 12; ++step) {
    begin(static_cast<float>(step + 1), step % 2 == 0 ? 1 : 2, static_cast<uint64_t>(step));
    EXPECT_THAT(executor.reported(1), ElementsAre(total, 1000 * step, 1000 * step));
    total += 1000 * (step + 1) * (step % 2 == 0 ? 1 : 2);
  }
  EXPECT_THAT(executor.reported(0), ElementsAre(total, 12000, 12000));
  EXPECT_EQ(executor.scalar("total"), total);
  EXPECT_THAT(executor.elements("both"), ElementsAre(total, 12000));
}

TEST_P(RunAhead, FeedsStepAfterStepWithoutWaiting) {
  executor.feed_scalar("proceed", 1);
  for (int step = 0; step < 7; ++step) begin(static_cast<float>(step + 1), 1, static_cast<uint64_t>(step));
  EXPECT_EQ(variables.get("total").data<float>()[0], 1000 * (1 + 2 + 3 + 4 + 5 + 6 + 7));
}

TEST_P(RunAhead, KeepsInputsThatAreNotFed) {
  executor.report({"sum"});
  executor.feed_scalar("proceed", 1);
  begin(1, 1, 0);
  for (int step = 1; step < 5; ++step) {
    executor.feed_scalar("scale", step);
    executor.run(static_cast<uint64_t>(step));
    EXPECT_THAT(executor.reported(1), ElementsAre(1000));
  }
  EXPECT_EQ(variables.get("total").data<float>()[0], 1000 * (1 + 1 + 2 + 3 + 4));
}

TEST_P(RunAhead, ChangesNothingAfterAStepThatIsNotFinite) {
  executor.report({"finite"});
  executor.carry("finite", "proceed");
  executor.feed_scalar("proceed", 1);
  begin(1, 1, 0);
  begin(std::numeric_limits<float>::quiet_NaN(), 1, 1);
  EXPECT_THAT(executor.reported(1), ElementsAre(1));
  begin(3, 1, 2);
  EXPECT_THAT(executor.reported(1), ElementsAre(0));
  EXPECT_THAT(executor.reported(0), ElementsAre(0));
  EXPECT_EQ(variables.get("total").data<float>()[0], 1000);
  executor.feed_scalar("proceed", 1);
  begin(3, 1, 2);
  begin(5, 1, 3);
  EXPECT_THAT(executor.reported(1), ElementsAre(1));
  EXPECT_EQ(variables.get("total").data<float>()[0], 9000);
}

TEST_P(RunAhead, CopiesVariablesBeforeTheNextStepChangesThem) {
  CopySources sources;
  for (const VariableStore::StoredSlice& slice : variables.slices("total"))
    sources.emplace_back(slice.data, static_cast<size_t>(slice.bytes));
  const std::shared_ptr<HostCopy> copy = backend->make_host_copy(sources, CopyOrder::kConcurrent);
  executor.feed_scalar("proceed", 1);
  for (int step = 0; step < 9; ++step) {
    if (step % 3 == 2) {
      variables.begin(copy);
      EXPECT_TRUE(variables.are_copied());
    }
    begin(1, 1, static_cast<uint64_t>(step));
    EXPECT_FALSE(variables.are_copied());
    if (step % 3 != 2) continue;
    if (step > 2) backend->wait();  // the step is computed, whether the copy is or not
    copy->wait();
    EXPECT_EQ(*reinterpret_cast<const float*>(copy->part(0)), 1000.0f * static_cast<float>(step));
  }
  EXPECT_EQ(variables.get("total").data<float>()[0], 9000);
}

TEST_P(RunAhead, CopiesVariablesBeforeTheyAreSet) {
  const VariableStore::StoredSlice slice = variables.slices("total")[0];
  const std::shared_ptr<HostCopy> copy =
      backend->make_host_copy({{slice.data, static_cast<size_t>(slice.bytes)}}, CopyOrder::kConcurrent);
  HostTensor value = variables.get("total");
  value.data<float>()[0] = 7;
  variables.begin(copy);
  variables.set("total", value);
  copy->wait();
  EXPECT_EQ(*reinterpret_cast<const float*>(copy->part(0)), 0);
  EXPECT_EQ(variables.get("total").data<float>()[0], 7);
}

INSTANTIATE_TEST_SUITE_P(Meshes, RunAhead,
                         ::testing::Values(std::pair("x:1", ""), std::pair("x:2", "a:x"),
                                           std::pair("x:8", "a:x")));

}  // namespace
}  // namespace mtf::testing
