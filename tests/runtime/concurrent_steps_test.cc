#include "engine/runtime/concurrent_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/backend/backend.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/unary.h"
#include "engine/runtime/prepared_program.h"
#include "tests/support/budget.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

/// Prepares a program on the processor (a GPU runs the steps of a stream in their order), and calls look(steps, ends) for each of its segments.
template <class Look>
void for_each_segment(const Program& program, const Look& look) {
  const std::shared_ptr<Backend> backend = make_cpu_backend();
  VariableStore variables(*backend, program.mesh, program.variables);
  InProcessCommunicator communicator;
  Workspace workspace(*backend, 8);  // more threads than positions
  const PreparedProgram prepared(program, *backend, communicator, variables, workspace, 1, false);
  for (const PreparedSegment& segment : prepared.segments()) {
    if (const auto* local = std::get_if<KernelSteps>(&segment.steps)) look(local->steps, local->ends);
  }
}

TEST(ConcurrentSteps, AreThoseThatDoNotNeedEachOther) {
  Graph graph;
  const Shape shape{{"n", 64}};
  const Tensor x = graph.input("x", shape), y = graph.input("y", shape);
  const Tensor a = tanh(x), b = tanh(y), c = a + b;
  for (const char* name : {"v", "w"}) {
    const Tensor before = graph.read(graph.variable(name, shape, DType::kFloat32, Initializer::zeros()));
    graph.assign(*graph.find_variable(name), sgd_update(before, c, graph.constant(0.1)));
  }
  std::vector<std::vector<std::string>> groups;
  for_each_segment(partition(graph, Layouts::single()), [&](const auto& steps, const auto& ends) {
    size_t i = 0;
    for (const size_t end : ends) {
      groups.emplace_back();
      for (; i < end; ++i) groups.back().emplace_back(name_of(*steps[i].instruction));
    }
  });
  const auto together = [&](const std::string& name) {
    return std::ranges::any_of(groups,
                               [&](const auto& group) { return std::ranges::count(group, name) == 2; });
  };
  EXPECT_TRUE(together("tanh"));
  EXPECT_TRUE(together("sgd_update"));
  EXPECT_GE(groups.size(), 3u);
}

/// In random programs, values are where the memory plan has put them: also where earlier ones have been.
TEST(ConcurrentSteps, DoNotWriteWhatOthersOfTheirGroupTouch) {
  size_t joined = 0;
  for (int seed = 0; seed < tries(40); ++seed) {
    const RandomGraph random = random_graph(static_cast<uint32_t>(seed));
    const std::unique_ptr<Layouts> layouts =
        random_layouts(static_cast<uint32_t>(seed), *random.graph, "x:2;y:2");
    if (!layouts) continue;
    const Program program = partition(*random.graph, *layouts);
    for_each_segment(program, [&](const std::vector<KernelStep>& steps, const std::vector<size_t>& ends) {
      ASSERT_EQ(ends.empty() ? 0 : ends.back(), steps.size());
      size_t begin = 0;
      for (const size_t end : ends) {
        ASSERT_LT(begin, end);
        ASSERT_LE(end - begin, kMostConcurrentSteps);
        joined += end - begin - 1;
        std::map<const std::byte*, size_t> writer;  // for each byte, the step that writes it
        for (const bool checks : {false, true}) {
          for (size_t i = begin; i < end; ++i) {
            const KernelStep& step = steps[i];
            for (size_t k = 0; k < step.slices.size(); ++k) {
              const size_t operand = k % (step.inputs + step.outputs);
              const bool is_output = operand >= step.inputs;
              if (!checks && !is_output) continue;
              const std::vector<ValueId>& ids = is_output ? step.results : step.instruction->inputs;
              const ValueId id = ids[(is_output ? operand - step.inputs : operand) % ids.size()];
              for (int64_t n = 0; n < program.local_bytes(id); ++n) {
                const auto [at, is_new] = writer.try_emplace(step.slices[k].data + n, i);
                if (checks && is_new) {
                  writer.erase(at);
                } else {
                  ASSERT_EQ(at->second, i) << "seed " << seed;
                }
              }
            }
          }
        }
        begin = end;
      }
    });
  }
  EXPECT_GT(joined, 0u);
}

}  // namespace
}  // namespace mtf::testing
