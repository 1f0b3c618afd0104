#include <gmock/gmock.h>

#include <cstring>

#include "engine/core/random.h"
#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "trainer/parameter_server/gradient_plan.h"
#include "trainer/parameter_server/placement.h"

namespace mtf {
namespace {

/// d sum((x w)^2) / dw, as output grad/w.
std::unique_ptr<Graph> squared_product() {
  auto graph = std::make_unique<Graph>();
  const Dimension batch{"batch", 24}, io{"io", 6}, hidden{"hidden", 4};
  const Tensor x = graph->input("x", {batch, io});
  const Tensor w = graph->read(graph->variable("w", {io, hidden}, DType::kFloat32, Initializer::normal(1)));
  const Tensor y = einsum({x, w}, {batch, hidden});
  const Tensor loss = reduce_sum(multiply(y, y), Shape{});
  graph->set_output("grad/w", gradients({loss}, {w})[0]);
  return graph;
}

/// A program of squared_product that has run.
struct FinishedRun {
  explicit FinishedRun(Program partitioned)
      : backend(make_cpu_backend()),
        program(std::move(partitioned)),
        variables(*backend, program.mesh, program.variables) {
    variables.initialize(3);
    executor = std::make_unique<Executor>(program, *backend, variables, ExecutorOptions{});
    std::vector<float> x(24 * 6);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(
          normal(random_key("x", 5), RandomStream::kData, 0, static_cast<int64_t>(i), 0, 1));
    executor->feed("x", x.data());
    executor->run(0);
  }
  std::unique_ptr<Backend> backend;
  Program program;
  VariableStore variables;
  std::unique_ptr<Executor> executor;
};

TEST(GradientPlan, ServersAddToTheBitsOfAnAllReduceForAnySplitOfTheMesh) {
  struct Case {
    const char* mesh;
    const char* layout;
  };
  const std::unique_ptr<Graph> graph = squared_product();
  for (const Case& c : {Case{"all:1", "batch:all"}, Case{"all:3", "batch:all"}, Case{"all:8", "batch:all"},
                        Case{"all:12", "batch:all"}, Case{"rows:3;cols:2", "batch:rows;hidden:cols"},
                        Case{"rows:2;cols:6", "batch:cols"}}) {
    const Layouts layouts = Layouts::make(Mesh(Shape::parse(c.mesh)), LayoutRules::parse(c.layout));
    const FinishedRun reduced(partition(*graph, layouts));
    const FinishedRun partial(partition(*graph, layouts, {.partial_outputs = "grad/"}));
    const HostTensor expected = reduced.executor->fetch("grad/w");
    for (int processes = 1; processes <= layouts.mesh.size(); ++processes) {
      if (layouts.mesh.size() % processes != 0) continue;
      const std::vector<GradientPlan> plans = plan_gradients(partial.program, {processes, 0});
      ASSERT_EQ(plans.size(), 1u);
      std::vector<std::vector<std::byte>> parts;
      std::vector<const std::byte*> addresses;
      for (const GradientSlice& slice : plans[0].slices) {
        for (const GradientPart& part : slice.parts) {
          parts.emplace_back(plans[0].bytes(part));
          pushed_part(*partial.executor, plans[0], slice, part, parts.back());
        }
      }
      for (const auto& part : parts) addresses.push_back(part.data());
      std::vector<std::byte> sum(expected.bytes.size());
      add_gradient(plans[0], addresses, sum);
      EXPECT_EQ(sum, expected.bytes) << c.mesh << " on " << processes;
    }
  }
}

TEST(GradientPlan, AWorkerPushesOneTensorForACompleteSubtree) {
  const std::unique_ptr<Graph> graph = squared_product();
  const Program program =
      partition(*graph, Layouts::make(Mesh(Shape::parse("all:8")), LayoutRules::parse("batch:all")),
                {.partial_outputs = "grad/"});
  EXPECT_EQ(plan_gradients(program, {2, 0})[0].slices[0].parts.size(), 2u);
  EXPECT_EQ(plan_gradients(program, {8, 0})[0].slices[0].parts.size(), 8u);
  const Program of_six =
      partition(*graph, Layouts::make(Mesh(Shape::parse("all:6")), LayoutRules::parse("batch:all")),
                {.partial_outputs = "grad/"});
  // ((0 1) (2 3)) (4 5) on two processes with three each: 0 and 1 are a subtree, so are 4 and 5.
  EXPECT_EQ(plan_gradients(of_six, {2, 0})[0].slices[0].parts.size(), 4u);
}

PlacedWeight weight(const std::string& name, int64_t size, int server) {
  Variable variable{.name = name, .shape = {{"io", size}}, .initializer = Initializer::zeros()};
  return {.variable = variable, .server = server, .is_trained = true, .gradient = DType::kFloat32};
}

TEST(ServerGraphs, HaveTheSlotsOfTheirOwnWeightsAndTheSquaresOfAll) {
  const std::vector<PlacedWeight> weights{weight("a", 3, 0), weight("b", 5, 1), weight("c", 7, 0)};
  UpdateOptions options{.optimizer = AdamOptimizerOptions{}, .learning_rate = {0.1}};
  const std::vector<ServedVariable> variables = served_variables(weights, 2, options);
  std::vector<std::string> names;
  for (const ServedVariable& v : variables) names.push_back(std::to_string(v.server) + " " + v.variable.name);
  EXPECT_THAT(names, ::testing::ElementsAre("0 a", "0 c", "0 a/adam_m", "0 a/adam_v", "0 c/adam_m",
                                            "0 c/adam_v", "1 b", "1 b/adam_m", "1 b/adam_v"));
  EXPECT_EQ(build_server_graphs(weights, 0, options).gradients, 2u);
  EXPECT_EQ(build_server_graphs(weights, 1, options).gradients, 1u);
}

}  // namespace
}  // namespace mtf
