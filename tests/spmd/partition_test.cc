// The programs of small networks as text: each layout communicates exactly what it must.
#include "engine/spmd/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/shift.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Appends the lines of a program that communicate or slice, as printed, without types.
void collect_moves(const Program& program, const std::vector<Instruction>& block, const std::string& indent,
                   std::vector<std::string>& lines) {
  for (const Instruction& instruction : block) {
    const bool loop = instruction.is<action::Loop>();
    if (instruction.is_collective() || instruction.is<action::Slice>() || loop) {
      const std::string line = to_string(program, instruction);
      lines.push_back(indent + line.substr(0, line.find(')') + 1));
    }
    if (loop) collect_moves(program, instruction.body(), indent + "  ", lines);
  }
}

std::vector<std::string> moves(const Program& program) {
  std::vector<std::string> lines;
  collect_moves(program, program.instructions, "", lines);
  return lines;
}

/// The names of the collectives, in order.
std::vector<std::string> collectives(const Program& program) {
  std::vector<std::string> result;
  for (const std::string& line : moves(program)) {
    const size_t begin = line.find("= ");
    if (begin != std::string::npos) result.push_back(line.substr(begin + 2, line.find('(') - begin - 2));
  }
  return result;
}

Tensor weight(Graph& graph, const std::string& name, const Shape& shape,
              Variable::Kind kind = Variable::Kind::kWeight) {
  return graph.read(graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.1), kind));
}

const Dimension kBatch{"batch", 8}, kInput{"input", 6}, kHidden{"hidden", 4}, kOutput{"output", 2};

/// One training step of y = relu(x w1) w2 with loss mean(y^2) and gradient descent or momentum.
void build_step(Graph& graph, bool momentum) {
  const Tensor x = graph.input("x", {kBatch, kInput});
  Tensor h, y;
  Tensor w1, w2;
  {
    const Graph::Scope layer = graph.layer();
    w1 = weight(graph, "w1", {kInput, kHidden});
    h = relu(einsum({x, w1}, {kBatch, kHidden}));
  }
  {
    const Graph::Scope layer = graph.layer();
    w2 = weight(graph, "w2", {kHidden, kOutput});
    y = einsum({h, w2}, {kBatch, kOutput});
  }
  const Tensor loss = reduce_mean(square(y), Shape{});
  graph.set_output("loss", loss);
  const Tensors gradients = mtf::gradients({loss}, {w1, w2});
  const Graph::Scope phase = graph.phase(Phase::kUpdate);
  const Graph::Scope domain = graph.domain(Domain::kOptimizer);
  const Tensor rate = graph.constant(0.5);
  int i = 0;
  for (const Tensor& w : {w1, w2}) {
    const Variable& variable = *graph.find_variable(i == 0 ? "w1" : "w2");
    const Tensor g = gradients[static_cast<size_t>(i++)];
    if (!momentum) {
      graph.assign(variable, sgd_update(w, g, rate));
      continue;
    }
    const Tensor slot = weight(graph, variable.name + "/velocity", variable.shape, Variable::Kind::kSlot);
    const MomentumUpdate update = momentum_update(w, g, slot, rate, 0.9);
    graph.assign(variable, update.weight);
    graph.assign(*graph.find_variable(variable.name + "/velocity"), update.velocity);
  }
}

Program step_program(const Layouts& layouts, bool momentum = false) {
  Graph graph;
  build_step(graph, momentum);
  Diagnostics diagnostics;
  check_layouts(graph, layouts, diagnostics);
  diagnostics.throw_if_errors();
  return partition(graph, layouts);
}

TEST(Partition, ForwardPassAsText) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch, kInput});
  const Tensor h = relu(einsum({x, weight(graph, "w1", {kInput, kHidden})}, {kBatch, kHidden}));
  graph.set_output("y", einsum({h, weight(graph, "w2", {kHidden, kOutput})}, {kBatch, kOutput}));
  EXPECT_EQ(partition(graph, layouts("rows:2;cols:2", "batch:rows;hidden:cols")).to_string(),
            "mesh rows=2 cols=2\n"
            "%2 = einsum(%x, %w1)                                     f32[batch=8/rows, hidden=4/cols]\n"
            "%3 = relu(%2)                                            f32[batch=8/rows, hidden=4/cols]\n"
            "%5 = einsum(%3, %w2)                                     f32[batch=8/rows, output=2] partial "
            "sum over cols\n"
            "%6 = all_reduce_start(%5, sum, cols)                     f32[batch=8/rows, output=2]\n"
            "done(%6)\n"
            "output y = %6\n");
}

TEST(Partition, OnePositionCommunicatesNothing) {
  EXPECT_THAT(moves(step_program(Layouts::single())), IsEmpty());
}

TEST(Partition, DataParallelReducesLossAndGradientsOnce) {
  EXPECT_THAT(moves(step_program(layouts("all:2", "batch:all"))),
              ElementsAre("%23, %21, %19 = all_reduce_start(%8, %15, %17, sum, all)"));  // loss, w2, w1
}

TEST(Partition, ModelParallelReducesActivations) {
  EXPECT_THAT(moves(step_program(layouts("all:2", "hidden:all"))),
              ElementsAre("%6 = all_reduce_start(%5, sum, all)"));
}

TEST(Partition, DataAndModelParallel) {
  EXPECT_THAT(
      moves(step_program(layouts("rows:2;cols:2", "batch:rows;hidden:cols"))),
      ElementsAre("%6 = all_reduce_start(%5, sum, cols)", "%22, %20 = all_reduce_start(%16, %18, sum, rows)",
                  "%24 = all_reduce_start(%9, sum, rows)"));
}

TEST(Partition, FullyShardedParametersAreGatheredAndGradientsScattered) {
  const Program program = step_program(layouts("all:2", "batch:all", "hidden:all"), true);
  EXPECT_THAT(
      moves(program),
      ElementsAre("%2 = all_gather_start(%w1, hidden, all)", "%6 = all_gather_start(%w2, hidden, all)",
                  "%16 = all_gather_start(%w2, hidden, all)",  // again in the backward pass
                  "%29 = reduce_scatter_start(%18, sum, hidden, all)",
                  "%24 = reduce_scatter_start(%20, sum, hidden, all)",
                  "%32 = all_reduce_start(%10, sum, all)"));
  PartitionOptions kept;
  kept.keep_gathered = true;
  Graph graph;
  build_step(graph, true);
  EXPECT_THAT(
      moves(partition(graph, layouts("all:2", "batch:all", "hidden:all"), kept)),
      ElementsAre("%2 = all_gather_start(%w1, hidden, all)", "%6 = all_gather_start(%w2, hidden, all)",
                  "%28 = reduce_scatter_start(%17, sum, hidden, all)",
                  "%23 = reduce_scatter_start(%19, sum, hidden, all)",
                  "%31 = all_reduce_start(%10, sum, all)"));
}

TEST(Partition, ShardedOptimizerStateScattersGradientsAndGathersWeights) {
  const Program program = step_program(layouts("all:2", "batch:all", "", "hidden:all"), true);
  EXPECT_THAT(
      moves(program),
      ElementsAre("%29 = reduce_scatter_start(%15, sum, hidden, all)",
                  "%22 = reduce_scatter_start(%17, sum, hidden, all)", "%20 = slice(%w1, hidden, all)",
                  "%25 = all_gather_start(%23, hidden, all)", "%27 = slice(%w2, hidden, all)",
                  "%32 = all_gather_start(%30, hidden, all)", "%33 = all_reduce_start(%8, sum, all)"));
}

TEST(Partition, ReducesOnlyWhereAContractedDimensionIsSplit) {
  const auto reductions = [](const std::string& layout) {
    Graph graph;
    const Tensor x = graph.input("x", {{"a", 4}, {"b", 4}}), y = graph.input("y", {{"b", 4}, {"c", 4}});
    graph.set_output("z", einsum({x, y}, {{"a", 4}, {"c", 4}}));
    return collectives(partition(graph, layouts("x:2;y:2", layout)));
  };
  EXPECT_THAT(reductions("a:x;c:y"), IsEmpty());
  EXPECT_THAT(reductions("b:x"), ElementsAre("all_reduce_start"));
  EXPECT_THAT(reductions("a:y;b:x"), ElementsAre("all_reduce_start"));
}

TEST(Partition, AddsPartialSumsBeforeItReducesThem) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch, kInput}), y = graph.input("y", {kBatch, kHidden});
  const Tensor z = einsum({x, weight(graph, "w1", {kInput, kOutput})}, {kBatch, kOutput}) +
                   einsum({y, weight(graph, "w2", {kHidden, kOutput})}, {kBatch, kOutput});
  graph.set_output("z", z);
  graph.set_output("relu", relu(z));
  EXPECT_THAT(collectives(partition(graph, layouts("x:2", "input:x;hidden:x"))),
              ElementsAre("all_reduce_start"));
}

TEST(Partition, PartialSumsPassThroughLinearOperationsAlone) {
  const auto reduced_before = [](const std::function<Tensor(const Tensor&)>& operation) {
    Graph graph;
    const Tensor x = graph.input("x", {kBatch, kInput});
    graph.set_output("y", operation(reduce_sum(x, {kBatch})));
    const Program program = partition(graph, layouts("x:2", "input:x"));
    return program.instructions[1].collective<action::AllReduce>() != nullptr;
  };
  EXPECT_FALSE(reduced_before([](const Tensor& t) { return negative(t); }));
  EXPECT_FALSE(reduced_before([](const Tensor& t) { return scalar_multiply(t, 3); }));
  EXPECT_FALSE(reduced_before([](const Tensor& t) { return negative(rename(t, "batch", "other")); }));
  EXPECT_FALSE(reduced_before([](const Tensor& t) { return add(t, t); }));
  EXPECT_TRUE(reduced_before([](const Tensor& t) { return relu(t); }));
  EXPECT_TRUE(reduced_before([](const Tensor& t) { return square(t); }));
  EXPECT_TRUE(reduced_before([](const Tensor& t) { return scalar_add(t, 3); }));
  EXPECT_TRUE(reduced_before([](const Tensor& t) { return multiply(t, t); }));
}

/// The gradient of w, summed over 4 microbatches, for loss = sum((x w)^2).
Tensors accumulated_gradient(Graph& graph, Domain sums_domain) {
  const Tensor x = graph.input("x", {kBatch, kInput}), w = weight(graph, "w", {kInput, kHidden});
  return repeat(
      graph, 4, {}, {"batch", 4},
      [&](const Tensors&) {
        const Tensor part = microbatch_slice(x);
        const Tensor y = einsum({part, w}, {{"batch", 2}, kHidden});
        return LoopResult{{}, {einsum({part, scalar_multiply(y, 2)}, {kInput, kHidden})}, {}};
      },
      sums_domain);
}

TEST(Partition, GradientsOfMicrobatchesAreReducedOnceAfterTheLoop) {
  Graph graph;
  graph.set_output("g", accumulated_gradient(graph, Domain::kActivation)[0]);
  EXPECT_THAT(moves(partition(graph, layouts("all:2", "batch:all"))),
              ElementsAre("repeat(4)", "%7 = all_reduce_start(%6, sum, all)"));
}

TEST(Partition, GradientsOfMicrobatchesAreScatteredInsideWhereTheirSumIsSplit) {
  Graph graph;
  const Tensor g = accumulated_gradient(graph, Domain::kParameter)[0];
  const Graph::Scope domain = graph.domain(Domain::kParameter);
  graph.assign(*graph.find_variable("w"), g);
  EXPECT_THAT(moves(partition(graph, layouts("all:2", "batch:all", "hidden:all"))),
              ElementsAre("repeat(4)", "  %3 = all_gather_start(%w, hidden, all)",
                          "  %8 = reduce_scatter_start(%6, sum, hidden, all)"));
}

TEST(Partition, LoopCarriedValuesAreReduced) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}});
  const Tensors result = repeat(graph, 2, {graph.constant(0)}, {}, [&](const Tensors& carried) {
    return LoopResult{{reduce_sum(x + carried[0], Shape{})}, {}, {}};
  });
  graph.set_output("acc", result[0]);
  const MeshRun run = run_on_mesh(graph, layouts("x:2", "a:x"), {{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(run.outputs.at("acc"), Values{50});  // 30 in Mesh TensorFlow, which leaves it partial
  EXPECT_THAT(moves(run.program), ElementsAre("repeat(2)", "  %5 = all_reduce_start(%4, sum, x)"));
}

TEST(Partition, CarriedValuesMayChangePlaces) {
  Graph graph;
  const Tensors result =
      repeat(graph, 3, {graph.constant(1), graph.constant(2), graph.constant(3)}, {}, [&](const Tensors& c) {
        return LoopResult{{c[1], c[2], c[0] + c[1]}, {}, {}};
      });
  for (int i = 0; i < 3; ++i) graph.set_output(std::to_string(i), result[static_cast<size_t>(i)]);
  const MeshRun run = run_on_mesh(graph, Layouts::single(), {});
  EXPECT_EQ(run.outputs, (std::map<std::string, Values>{{"0", {3}}, {"1", {5}}, {"2", {6}}}))
      << run.program.to_string();
}

TEST(Partition, VariablesMayChangePlacesAndOutputsKeepTheOldValues) {
  Graph graph;
  const Tensor s = weight(graph, "s", {{"a", 2}}), t = weight(graph, "t", {{"a", 2}});
  graph.assign(*graph.find_variable("s"), t);
  graph.assign(*graph.find_variable("t"), s);
  graph.set_output("old s", s);
  MeshRunOptions options;
  options.variables = {{"s", {1, 2}}, {"t", {3, 4}}};
  const MeshRun run = run_on_mesh(graph, layouts("x:2", "a:x"), {}, options);
  EXPECT_EQ(run.variables, (std::map<std::string, Values>{{"s", {3, 4}}, {"t", {1, 2}}}));
  EXPECT_EQ(run.outputs.at("old s"), (Values{1, 2}));
}

TEST(Partition, AnAverageOfWeightsTakesTheValueBeforeTheUpdate) {
  Graph graph;
  const Tensor w = weight(graph, "w", {{"a", 2}});
  weight(graph, "shadow", {{"a", 2}});
  graph.assign(*graph.find_variable("w"), negative(w));
  graph.assign(*graph.find_variable("shadow"), w);
  MeshRunOptions options;
  options.variables = {{"w", {1, 2}}};
  EXPECT_EQ(run_on_mesh(graph, Layouts::single(), {}, options).variables.at("shadow"), (Values{1, 2}));
}

TEST(Partition, AShiftFollowsTheOrderOfTheSplits) {
  Graph graph;
  graph.set_output("y", shift(graph.input("x", {{"d", 12}}), 4, "d", false));
  for (const std::vector<std::string>& over : {std::vector<std::string>{"x", "y"}, {"y", "x"}, {"z", "x"}}) {
    const Layouts layouts = Layouts::make(Mesh(Shape::parse("x:2;y:2;z:3")),
                                          LayoutRules(std::vector<LayoutRule>{{"d", over, {}}}));
    const MeshRun run = run_on_mesh(graph, layouts, {{"x", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}});
    EXPECT_EQ(run.outputs.at("y"), (Values{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_DOUBLE_EQ(run.counters.bytes_per_position, bytes_sent(run.program, run.program.instructions[0]));
  }
}

TEST(Partition, RecomputationChangesNoGradient) {
  const auto gradients_with = [](bool recomputed, const Layouts& layouts) {
    Graph graph;
    const Tensor x = graph.input("x", {kBatch, kInput});
    const Tensor w1 = weight(graph, "w1", {kInput, kHidden}), w2 = weight(graph, "w2", {kHidden, kOutput});
    const auto hidden = [&](const Tensors& t) {
      return Tensors{square(relu(einsum({t[0], w1}, {kBatch, kHidden})))};
    };
    const Tensor h = recomputed ? recompute(hidden, {x})[0] : hidden({x})[0];
    const Tensor loss = reduce_mean(square(einsum({h, w2}, {kBatch, kOutput})), Shape{});
    const Tensors g = gradients({loss}, {w1, w2});
    graph.set_output("g1", g[0]);
    graph.set_output("g2", g[1]);
    MeshRunOptions options;
    options.variables = {{"w1", Values(24, 0.25)}, {"w2", Values(8, 0.5)}};
    Values x_values;
    for (int i = 0; i < 48; ++i) x_values.push_back(i % 7 - 3);
    return run_on_mesh(graph, layouts, {{"x", x_values}}, options).outputs;
  };
  const std::map<std::string, Values> expected = gradients_with(false, Layouts::single());
  EXPECT_NE(expected.at("g1")[0], 0);
  for (const Layouts& layouts :
       {Layouts::single(), layouts("x:2;y:2", "batch:x;hidden:y"), layouts("x:2", "batch:x", "hidden:x"),
        layouts("x:2;y:2", "input:x;hidden:y")}) {
    EXPECT_EQ(gradients_with(true, layouts), expected);
  }
}

TEST(Partition, AProgramOutlivesItsGraph) {
  const Layouts layouts = testing::layouts("x:2", "input:x");
  Program program;
  {
    Graph graph;  // softmax is expanded into operations that are not in the graph
    graph.set_output("y", reshape(softmax(graph.input("x", {kBatch, kInput}), "input"), {{"all", 48}}));
    program = partition(graph, layouts);
  }
  const MeshRun run = run_program(std::move(program), {{"x", Values(48, 1)}});
  for (double y : run.outputs.at("y")) EXPECT_FLOAT_EQ(static_cast<float>(y), 1.0f / 6);
}

TEST(Partition, OnlyWhatIsNeededIsRun) {
  Graph graph;
  const Tensor x = graph.input("x", {kBatch});
  relu(graph.input("unused", {kBatch}));
  graph.set_output("y", negative(x));
  const Program program = partition(graph, Layouts::single());
  EXPECT_EQ(program.instructions.size(), 1u);
  EXPECT_EQ(program.inputs.size(), 1u);
}

TEST(Partition, LayoutsAreStacked) {
  const Layouts stacked = layouts("x:2;y:2", "batch:x;hidden:y", "hidden:x", "input:y");
  EXPECT_EQ(stacked.activation.find("hidden")->mesh_dimensions, std::vector<std::string>{"y"});
  EXPECT_EQ(stacked.parameter.find("hidden")->mesh_dimensions, std::vector<std::string>{"x"});
  EXPECT_EQ(stacked.optimizer.find("hidden")->mesh_dimensions, std::vector<std::string>{"x"});
  EXPECT_EQ(stacked.parameter.find("input"), nullptr);
  EXPECT_EQ(stacked.optimizer.find("input")->mesh_dimensions, std::vector<std::string>{"y"});
}

}  // namespace
}  // namespace mtf::testing
