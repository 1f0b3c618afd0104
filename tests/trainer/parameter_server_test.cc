#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "engine/base/error.h"
#include "engine/core/random.h"
#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "tests/support/failure.h"
#include "tests/support/parse_optimizer.h"
#include "trainer/parameter_server/gradient_plan.h"
#include "trainer/parameter_server/weight_placement.h"
#include "trainer/train/layer_reports.h"

namespace mtf {
namespace {

/// Builds d sum((x w)^2) / dw as output grad/w.
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

/// The program of squared_product after a run.
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

/// Returns the sum of two servers that have the rows [0, split) and [split, end) of a gradient; with split =
/// 0 there is one server.
std::vector<std::byte> added(const FinishedRun& run, int processes, int64_t split) {
  const GradientPlan whole = plan_gradient(run.program, "grad/w", {processes, 0});
  std::vector<std::byte> result;
  for (const auto& [begin, end] : {std::pair(int64_t{0}, split), std::pair(split, whole.shape[0].size)}) {
    if (begin == end) continue;
    const GradientPlan plan = rows_of_gradient(whole, begin, end);
    std::vector<std::vector<std::byte>> parts;
    std::vector<const std::byte*> addresses;
    for (const GradientSlice& slice : plan.slices) {
      for (const GradientPart& part : slice.parts) {
        std::vector<std::byte> buffer;
        const auto pushed = pushed_part(*run.executor, plan, slice, part, buffer);
        EXPECT_EQ(pushed.size(), plan.bytes(slice, part));
        parts.emplace_back(pushed.begin(), pushed.end());
      }
    }
    for (const auto& part : parts) addresses.push_back(part.data());
    std::vector<std::byte> sum(static_cast<size_t>(plan.shape.size()) * sizeof(float));
    add_gradient(plan, addresses, sum.data());
    result.insert(result.end(), sum.begin(), sum.end());
  }
  return result;
}

TEST(GradientPlan, ServersAddToTheBitsOfAnAllReduceForAnySplitOfTheMeshAndOfRows) {
  struct Case {
    const char* mesh;
    const char* layout;
  };
  const std::unique_ptr<Graph> graph = squared_product();
  for (const Case& c : {Case{"all:1", "batch:all"}, Case{"all:3", "batch:all"}, Case{"all:8", "batch:all"},
                        Case{"all:12", "batch:all"}, Case{"rows:3;cols:2", "batch:rows;hidden:cols"},
                        Case{"rows:2;cols:6", "batch:cols"}, Case{"rows:2;cols:3", "batch:rows;io:cols"}}) {
    const Layouts layouts = Layouts::make(Mesh(Shape::parse(c.mesh)), LayoutRules::parse(c.layout));
    const FinishedRun reduced(partition(*graph, layouts));
    const FinishedRun partial(partition(*graph, layouts, {.partial_outputs = "grad/"}));
    const HostTensor expected = reduced.executor->fetch("grad/w");
    for (int processes = 1; processes <= layouts.mesh.size(); ++processes) {
      if (layouts.mesh.size() % processes != 0) continue;
      for (const int64_t split : {0, 1, 4})
        EXPECT_EQ(added(partial, processes, split), expected.bytes) << c.mesh << " on " << processes;
    }
  }
}

TEST(GradientPlan, AWorkerPushesOneTensorForACompleteSubtree) {
  const std::unique_ptr<Graph> graph = squared_product();
  const auto parts = [&](const char* mesh, int processes) {
    const Program program =
        partition(*graph, Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules::parse("batch:all")),
                  {.partial_outputs = "grad/"});
    return plan_gradient(program, "grad/w", {processes, 0}).slices[0].parts.size();
  };
  EXPECT_EQ(parts("all:8", 2), 2u);
  EXPECT_EQ(parts("all:8", 8), 8u);
  // The tree is ((0 1) (2 3)) (4 5) on two processes with three positions each: 0 and 1 are a subtree, and so
  // are 4 and 5.
  EXPECT_EQ(parts("all:6", 2), 4u);
}

PlacedWeight weight(const std::string& name, int64_t size, std::vector<WeightPart> parts) {
  Variable variable{.name = name, .shape = {{"io", size}}, .initializer = Initializer::zeros()};
  return {.variable = variable, .parts = std::move(parts), .is_trained = true, .gradient = DType::kFloat32};
}

TEST(ServedVariables, AreTheWeightsAndTheRowsOfThemWithTheirSlots) {
  const std::vector<PlacedWeight> weights{weight("a", 3, {{0, 0, 3}}), weight("b", 5, {{0, 0, 2}, {1, 2, 5}}),
                                          weight("c", 7, {{0, 0, 7}})};
  const UpdateOptions options{.optimizer = testing::parse_optimizer("adam"), .learning_rate = {0.1}};
  std::vector<std::string> names;
  for (const ServedVariable& v : served_variables(weights, 2, options)) {
    names.push_back(fmt::format("{} {} {} at byte {}", v.server, v.variable.name, v.variable.shape.size(),
                                v.first_byte()));
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("0 a 3 at byte 0", "0 a/adam_m 3 at byte 0", "0 a/adam_v 3 at byte 0",
                                     "0 b 2 at byte 0", "0 b/adam_m 2 at byte 0", "0 b/adam_v 2 at byte 0",
                                     "0 c 7 at byte 0", "0 c/adam_m 7 at byte 0", "0 c/adam_v 7 at byte 0",
                                     "1 b 3 at byte 8", "1 b/adam_m 3 at byte 8", "1 b/adam_v 3 at byte 8"));
}

/// Returns a configuration with this number of servers.
Config with_servers(size_t servers, ServerPlacement placement = PlacementWord::kBytes) {
  Config config;
  config.optimizer = testing::parse_optimizer("sgd");
  config.train.strategy = ParameterServerStrategy{.placement = std::move(placement)};
  config.launch.jobs = {{"ps", std::vector<std::string>(servers, "127.0.0.1:1")}};
  return config;
}

Program program_of(const std::vector<Shape>& shapes) {
  Program program;
  for (size_t i = 0; i < shapes.size(); ++i) {
    ProgramVariable v;
    v.variable = {.name = std::string(1, static_cast<char>('a' + i)),
                  .shape = shapes[i],
                  .initializer = Initializer::zeros()};
    program.variables.push_back(v);
  }
  return program;
}

/// Returns "a: 0 [0, 784)", a line for each weight.
std::string places(const std::vector<Shape>& shapes, const Config& config) {
  Diagnostics diagnostics;
  std::string text;
  for (const PlacedWeight& weight : place_weights(program_of(shapes), config, diagnostics)) {
    text += weight.variable.name + ":";
    for (const WeightPart& part : weight.parts)
      text += fmt::format(" {} [{}, {})", part.server, part.begin, part.end);
    text += "\n";
  }
  diagnostics.throw_if_errors();
  return text;
}

TEST(Placement, SplitsInRowsWhatWouldBeTooMuchForOneServer) {
  const Shape embedding{{"vocab", 32768}, {"d_model", 64}}, kernel{{"d_model", 64}, {"d_ff", 256}},
      bias{{"d_ff", 256}};
  EXPECT_EQ(places({embedding, kernel, bias}, with_servers(1)),
            "a: 0 [0, 32768)\nb: 0 [0, 64)\nc: 0 [0, 256)\n");
  EXPECT_EQ(places({embedding, kernel, bias}, with_servers(2)),
            "a: 0 [0, 16384) 1 [16384, 32768)\nb: 0 [0, 64)\nc: 1 [0, 256)\n");
  // Of three equal weights on two servers the last one is halved.
  EXPECT_EQ(places({embedding, embedding, embedding}, with_servers(2)),
            "a: 0 [0, 32768)\nb: 1 [0, 32768)\nc: 0 [0, 16384) 1 [16384, 32768)\n");
  // A server on which a pattern has placed a weight gets fewer rows. A row of 65 elements gives blocks of 512
  // rows.
  const Shape odd{{"vocab", 4000}, {"d_model", 65}};
  EXPECT_EQ(places({kernel, odd}, with_servers(3, config::Named<int64_t>{{"^a$", 1}})),
            "a: 1 [0, 64)\nb: 0 [0, 1536) 1 [1536, 2560) 2 [2560, 4000)\n");
}

TEST(Placement, KeepsWeightsWholeThatAnOptimizerUpdatesAsAWhole) {
  Config config = with_servers(2);
  config.optimizer = testing::parse_optimizer("adafactor");
  EXPECT_EQ(places({{{"vocab", 32768}, {"d_model", 64}}, {{"d_ff", 256}}}, config),
            "a: 0 [0, 32768)\nb: 1 [0, 256)\n");
}

TEST(Placement, APatternThatNoVariableHasIsAnError) {
  EXPECT_THAT(failure([] {
                places({{{"io", 4}}}, with_servers(1, config::Named<int64_t>{{"embedding", 0}}));
              }),
              ::testing::HasSubstr("`train.strategy.placement`: no variable has `embedding` in its name"));
}

TEST(Placement, IsDescribedWithTheBytesOfEachServer) {
  const std::vector<PlacedWeight> weights{weight("a", 3'000'000, {{0, 0, 3'000'000}}),
                                          weight("b", 5, {{1, 0, 5}})};
  const UpdateOptions options{.optimizer = testing::parse_optimizer("sgd"), .learning_rate = {0.1}};
  EXPECT_THAT(describe_placement(weights, served_variables(weights, 2, options), 2),
              ::testing::ElementsAre("parameter servers: 0 has 1 variable, 12 MB (100 %), 1 has 1 variable, "
                                     "20 B (0 %)"));
}

/// A runner whose last step this worker has made, or another one.
class FinishedStep final : public StepRunner {
 public:
  explicit FinishedStep(bool is_own) : is_own_(is_own) {}
  void start(const RunState&, std::optional<int64_t>) override {}
  const Batch* next(RunState&) override { return nullptr; }
  void run(const Batch&, const RunState&) override {}
  void take_results() override {}
  int64_t skipped() const override { return 0; }
  double loss() const override { return 0; }
  double grad_norm() const override { return 0; }
  bool has_outputs() const override { return is_own_; }
  double output(const std::string&) const override { return 7; }
  std::vector<double> elements(const std::string&) const override { return {1, 2}; }
  std::optional<NonFinite> first_non_finite(const RunState&) override { return std::nullopt; }
  void count(RunState&) override {}

 private:
  bool is_own_;
};

TEST(LayerReports, OfStepsOfOtherWorkersThereAreNone) {
  Graph graph;
  graph.set_output("loss/balance", reduce_sum(relu(graph.input("x", {{"batch", 4}})), Shape{}));
  graph.set_output("report/load", relu(graph.input("load", {{"_layers", 1}, {"_entries", 2}})));
  const Program program = partition(graph, Layouts::single());
  const LayerReports own = layer_reports(program, FinishedStep(true)),
                     other = layer_reports(program, FinishedStep(false));
  ASSERT_EQ(own.numbers.size(), 1u);
  EXPECT_EQ(own.numbers[0].first, "loss/balance");
  EXPECT_EQ(own.lists.size(), 1u);
  EXPECT_TRUE(other.numbers.empty() && other.lists.empty());
}

}  // namespace
}  // namespace mtf
