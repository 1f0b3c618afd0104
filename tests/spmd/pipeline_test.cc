// Pipelines: the order of the stages, what they send and keep, and that results are those of one position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "engine/runtime/memory_plan.h"
#include "engine/spmd/partition/unit_places.h"
#include "engine/spmd/passes/pipeline_order.h"
#include "engine/spmd/program_facts.h"
#include "engine/spmd/work.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

std::vector<int64_t> chunks_in_turn(int64_t stages, int64_t rounds) {
  std::vector<int64_t> result;
  for (int64_t chunk = 0; chunk < stages * rounds; ++chunk) result.push_back(chunk % stages);
  return result;
}

TEST(PipelineOrder, BubblesAreThoseOfTheFormulas) {
  for (const int64_t stages : {2, 3, 4, 8}) {
    for (const int64_t rounds : {1, 2, 4}) {
      for (const int64_t turns : {1, 2, 5}) {
        const int64_t microbatches = turns * stages;
        const double waits = static_cast<double>(stages - 1);
        const double expected = waits / (static_cast<double>(rounds * microbatches) + waits);
        EXPECT_NEAR(pipeline_bubble(chunks_in_turn(stages, rounds), microbatches, PipelineSchedule::k1F1B),
                    expected, 1e-9)
            << stages << " stages, " << rounds << " rounds, " << microbatches << " microbatches";
        if (rounds == 1) {
          EXPECT_NEAR(pipeline_bubble(chunks_in_turn(stages, 1), microbatches, PipelineSchedule::kGPipe),
                      expected, 1e-9);
        }
      }
    }
  }
}

/// The most microbatches that a chunk has between their forward and backward passes.
int64_t most_in_flight(const std::vector<PipelineTask>& tasks, int chunk) {
  int64_t now = 0, most = 0;
  for (const PipelineTask& task : tasks) {
    if (task.chunk == chunk) most = std::max(most, now += task.is_backward ? -1 : 1);
  }
  return most;
}

TEST(PipelineOrder, KeepsFewMicrobatchesAndTheirOrder) {
  const std::vector<std::vector<int64_t>> arrangements = {
      chunks_in_turn(4, 1), chunks_in_turn(2, 3), {0, 1, 0}, {2, 0, 1}, {0, 1, 1, 0}, {0}};
  for (const std::vector<int64_t>& stages : arrangements) {
    for (const int64_t microbatches : {1, 2, 3, 7, 8}) {
      const std::vector<ChunkMoments> moments(stages.size(), {1, 2});
      for (const PipelineSchedule schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kGPipe}) {
        const std::vector<PipelineTask> tasks = pipeline_order(stages, microbatches, schedule, moments);
        ASSERT_EQ(std::ssize(tasks), 2 * std::ssize(stages) * microbatches);
        std::map<std::pair<int, bool>, int64_t> next;
        std::map<int64_t, double> free;
        for (const PipelineTask& task : tasks) {
          const int64_t microbatch = next[{task.chunk, task.is_backward}]++;
          EXPECT_EQ(task.microbatch, microbatch);
          double& stage = free[stages[static_cast<size_t>(task.chunk)]];
          EXPECT_GE(task.begin, stage);
          stage = task.end;
        }
        if (schedule == PipelineSchedule::k1F1B && microbatches % 4 == 0 && stages == chunks_in_turn(4, 1)) {
          for (int chunk = 0; chunk < 4; ++chunk) EXPECT_LE(most_in_flight(tasks, chunk), 4 - chunk);
        }
      }
    }
  }
}

constexpr int64_t kPipeBlocks = 4;
const Dimension kPipeWidth{"width", 8}, kPipeHidden{"hidden", 12};

Tensor pipe_weight(Graph& graph, const std::string& name, const Shape& shape) {
  return graph.read(graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.3)));
}

/// x + relu(x w) v in each of kPipeBlocks blocks, between products with a table that they share; descent along the gradient.
/// With `views` w multiplies a view of x.
void build_network(Graph& graph, int64_t microbatches, int64_t batch, bool views = false) {
  const Tensor images = graph.input("x", {{"batch", batch}, kPipeWidth});
  const Variable& table = graph.variable("table", {kPipeWidth, {"width2", kPipeWidth.size}}, DType::kFloat32,
                                         Initializer::normal(0.3));
  Tensors weights;
  const auto pass = [&]() -> LoopResult {
    const Tensor part = microbatches > 1 ? microbatch_slice(images) : images;
    const Shape rows{part.shape()[0], kPipeWidth}, wide{part.shape()[0], kPipeHidden};
    const Dimension other{"width2", kPipeWidth.size};
    Tensor x = einsum({part, graph.read(table)}, {part.shape()[0], other});
    x = einsum({x, graph.read(table)}, rows);
    for (int64_t block = 0; block < kPipeBlocks; ++block) {
      const auto unit = graph.unit("block_00" + std::to_string(block), true);
      const auto scope = graph.scope("block_00" + std::to_string(block));
      const Dimension width = views ? Dimension{"seen", kPipeWidth.size} : kPipeWidth;
      const Tensor seen = views ? reshape(x, {part.shape()[0], width}) : x;
      const Tensor h =
          relu(einsum({seen, pipe_weight(graph, graph.scoped("w"), {width, kPipeHidden})}, wide));
      x = add(x, einsum({h, pipe_weight(graph, graph.scoped("v"), {kPipeHidden, kPipeWidth})}, rows));
    }
    x = einsum({x, graph.read(table)}, {part.shape()[0], other});
    const Tensor loss = reduce_mean(multiply(x, x), Shape{});
    LoopResult result{{}, {scalar_multiply(loss, 1.0 / static_cast<double>(microbatches))}, {}};
    weights.clear();
    for (const auto& variable : graph.variables()) weights.push_back(graph.read(*variable));
    for (const Tensor& gradient : gradients({result.sums[0]}, weights)) result.sums.push_back(gradient);
    return result;
  };
  const Tensors results = microbatches > 1 ? repeat(
                                                 graph, microbatches, {}, {"batch", microbatches},
                                                 [&](const Tensors&) { return pass(); }, Domain::kParameter)
                                           : pass().sums;
  graph.set_output("loss", results[0]);
  const auto phase = graph.phase(Phase::kUpdate);
  const Tensor rate = graph.constant(0.1);
  for (size_t i = 0; i < graph.variables().size(); ++i) {
    const Variable& variable = *graph.variables()[i];
    graph.assign(variable, sgd_update(graph.read(variable), results[i + 1], rate));
    graph.set_output("grad/" + variable.name, results[i + 1]);
  }
}

Layouts pipelined(const std::string& mesh, const std::string& layout, Pipeline pipeline,
                  const std::string& parameter_layout = {}) {
  Layouts result = layouts(mesh, layout, parameter_layout);
  result.pipeline = std::move(pipeline);
  return result;
}

std::vector<std::string> sent_lines(const Program& program) {
  std::vector<std::string> lines;
  for (const Instruction& instruction : program.instructions) {
    const std::string line = to_string(program, instruction);
    if (instruction.collective<action::Send>())
      lines.push_back(line.substr(line.find("send"), line.find(')') - line.find("send") + 1));
  }
  return lines;
}

TEST(Pipeline, SendsWhatTheNextStageNeeds) {
  Graph graph;
  build_network(graph, 4, 16);
  const Layouts layouts = pipelined("stages:2", "", {.mesh_dimension = "stages"});
  const Program program = partition(graph, layouts);
  std::map<std::string, int> counts;
  for (const std::string& line : sent_lines(program)) ++counts[line.substr(line.find(", ") + 2)];
  EXPECT_EQ(counts["to 1, stages)"], 1 + 4) << "the table once, activations of each microbatch\n"
                                            << program.to_string();
  EXPECT_EQ(counts["to 0, stages)"], 1 + 4) << "the gradient of the table once\n" << program.to_string();
  for (const ProgramVariable& variable : program.variables) {
    const bool is_last =
        variable.variable.name.starts_with("block_002") || variable.variable.name.starts_with("block_003");
    EXPECT_EQ(variable.layout.pin, (Pin{0, is_last ? 1 : 0})) << variable.variable.name;
  }
}

TEST(Pipeline, KeepsActivationsOfFewMicrobatches) {
  const auto temporaries = [](int64_t microbatches, PipelineSchedule schedule) {
    Graph graph;
    build_network(graph, microbatches, 64 * microbatches);
    const Program program =
        partition(graph, pipelined("stages:4", "", {.mesh_dimension = "stages", .schedule = schedule}));
    return static_cast<double>(plan_memory(program).stages[0].temporaries);
  };
  EXPECT_LT(temporaries(24, PipelineSchedule::k1F1B) / temporaries(8, PipelineSchedule::k1F1B), 1.1);
  EXPECT_GT(temporaries(24, PipelineSchedule::kGPipe) / temporaries(8, PipelineSchedule::kGPipe), 2);
}

Values pipe_inputs(int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(0.7 * static_cast<double>(i)));
  return values;
}

struct PipeArrangement {
  std::string mesh, layout, parameter_layout;
  Pipeline pipeline;
  int64_t microbatches = 4;
};

std::vector<PipeArrangement> pipe_arrangements() {
  const auto gpipe = PipelineSchedule::kGPipe;
  return {{"s:2", "", "", {.mesh_dimension = "s"}},
          {"s:2", "", "", {.mesh_dimension = "s"}, 1},
          {"s:2", "", "", {.mesh_dimension = "s", .schedule = gpipe}},
          {"s:2", "", "", {.mesh_dimension = "s", .rounds = 2}},
          {"s:2", "", "", {.mesh_dimension = "s", .rounds = 2}, 2},
          {"s:4", "", "", {.mesh_dimension = "s"}, 8},
          {"s:1", "", "", {.mesh_dimension = "s"}},
          {"rows:2;s:2", "batch:rows", "", {.mesh_dimension = "s"}},
          {"s:2;rows:2", "batch:rows", "hidden:rows", {.mesh_dimension = "s", .rounds = 2}},
          {"s:2;cols:2", "hidden:cols", "", {.mesh_dimension = "s"}, 2},
          {"rows:2;s:2;cols:2", "batch:rows;hidden:cols", "width:rows", {.mesh_dimension = "s"}},
          {"s:3",
           "",
           "",
           {.mesh_dimension = "s", .placement = {{2, {"block_0"}}, {0, {"block_1..2"}}, {1, {"block_003"}}}}},
          {"s:2",
           "",
           "",
           {.mesh_dimension = "s", .placement = {{0, {"block_0", "block_2"}}, {1, {"block_1", "block_3"}}}}}};
}

void expect_results_of_one_position(const PipeArrangement& a, bool views) {
  const std::map<std::string, Values> feeds{{"x", pipe_inputs(16 * kPipeWidth.size)}};
  SCOPED_TRACE(a.mesh + " " + a.layout + " " + a.parameter_layout + (views ? ", with views" : ""));
  Graph graph;
  build_network(graph, a.microbatches, 16, views);
  const MeshRun single = run_on_mesh(graph, Layouts::single(), feeds, {.steps = 3});
  const Layouts layouts = pipelined(a.mesh, a.layout, a.pipeline, a.parameter_layout);
  Diagnostics diagnostics;
  check_layouts(graph, layouts, diagnostics);
  check_pipeline(graph, layouts, diagnostics);
  ASSERT_FALSE(diagnostics.has_errors());
  const MeshRun run = run_on_mesh(graph, layouts, feeds, {.steps = 3});
  for (const auto& [output, values] : single.outputs)
    EXPECT_LE(relative_difference(run.outputs.at(output), values), 1e-5) << output;
  for (const auto& [variable, values] : single.variables)
    EXPECT_LE(relative_difference(run.variables.at(variable), values), 1e-5) << variable;
  const int64_t positions = layouts.mesh.size();
  for (const int processes : {2, 4, 8}) {
    if (positions % processes != 0) continue;
    MeshRunOptions options{.steps = 3, .check_replicas = false};
    options.partition.asynchronous = true;
    for (const MeshRun& process : run_on_processes(processes, graph, layouts, feeds, options)) {
      EXPECT_EQ(process.outputs, run.outputs) << "in " << processes << " processes";
      EXPECT_EQ(process.variables, run.variables) << "in " << processes << " processes";
    }
  }
}

TEST(Pipeline, ComputesWhatOnePositionComputes) {
  for (const PipeArrangement& a : pipe_arrangements()) expect_results_of_one_position(a, false);
}

TEST(Pipeline, ComputesWithViewsWhatOnePositionComputes) {
  for (const PipeArrangement& a : pipe_arrangements()) expect_results_of_one_position(a, true);
}

TEST(Pipeline, BytesAreThoseThatAreCounted) {
  const std::map<std::string, Values> feeds{{"x", pipe_inputs(16 * kPipeWidth.size)}};
  for (const PipeArrangement& a : pipe_arrangements()) {
    Graph graph;
    build_network(graph, a.microbatches, 16);
    const Layouts layouts = pipelined(a.mesh, a.layout, a.pipeline, a.parameter_layout);
    const MeshRun run = run_on_mesh(graph, layouts, feeds, {.check_replicas = false});
    const ProgramFacts facts = program_facts(run.program);
    EXPECT_NEAR(facts.bytes_sent, run.counters.bytes_per_position, 1e-6 * facts.bytes_sent)
        << a.mesh << " " << a.layout;
    EXPECT_NEAR(facts.flops, run.counters.flops_per_position, 1e-6 * facts.flops)
        << a.mesh << " " << a.layout;
  }
}

/// Microbatches and layers that look alike share what is found once.
TEST(Pipeline, WorkIsThatOfEachInstructionByItself) {
  for (const PipeArrangement& a : pipe_arrangements()) {
    Graph graph;
    build_network(graph, a.microbatches, 16);
    const Program program = partition(graph, pipelined(a.mesh, a.layout, a.pipeline, a.parameter_layout));
    WorkFinder shared(program);
    for (const Instruction& instruction : program.instructions) {
      const std::optional<Work> work = shared.of(instruction), alone = WorkFinder(program).of(instruction);
      ASSERT_EQ(work.has_value(), alone.has_value());
      if (!work) continue;
      EXPECT_EQ(work->kind, alone->kind) << to_string(program, instruction);
      EXPECT_EQ(work->flops, alone->flops) << to_string(program, instruction);
      EXPECT_EQ(work->bytes, alone->bytes) << to_string(program, instruction);
      EXPECT_EQ(work->product.rows, alone->product.rows) << to_string(program, instruction);
      EXPECT_EQ(work->product.summed, alone->product.summed) << to_string(program, instruction);
    }
  }
}

std::string pipeline_problem(Layouts layouts, Pipeline pipeline) {
  Graph graph;
  build_network(graph, 2, 16);
  layouts.pipeline = std::move(pipeline);
  Diagnostics diagnostics;
  check_pipeline(graph, layouts, diagnostics);
  return diagnostics.errors().empty() ? "" : diagnostics.errors().front().to_string();
}

TEST(Pipeline, ReportsWhatCannotBePlaced) {
  EXPECT_THAT(pipeline_problem(layouts("s:8", ""), {.mesh_dimension = "s"}),
              HasSubstr("4 blocks cannot lie on 8 stages"));
  EXPECT_THAT(pipeline_problem(layouts("s:2", ""), {.mesh_dimension = "s", .rounds = 3}),
              HasSubstr("in 3 rounds"));
  EXPECT_THAT(pipeline_problem(layouts("s:2", "batch:s"), {.mesh_dimension = "s"}),
              HasSubstr("cannot split `batch`"));
  const auto placed = [](std::map<int64_t, std::vector<std::string>> placement) {
    return pipeline_problem(layouts("s:2", ""), {.mesh_dimension = "s", .placement = std::move(placement)});
  };
  EXPECT_EQ(placed({{0, {"block_0..1"}}, {1, {"block_2..3"}}}), "");
  EXPECT_THAT(placed({{0, {"block_0..1"}}, {1, {"block_3"}}}), HasSubstr("leaves out block_002"));
  EXPECT_THAT(placed({{0, {"block_0..2"}}, {1, {"block_3", "blok_7"}}}), HasSubstr("names `blok_7`"));
  EXPECT_THAT(placed({{0, {"block_0..2"}}, {2, {"block_3"}}}), HasSubstr("stage 2"));
  EXPECT_THAT(placed({{0, {"block_0..3"}}}), HasSubstr("nothing for stage 1"));
  EXPECT_THAT(placed({{0, {"block_0..1"}}, {1, {"block_1..3"}}}),
              HasSubstr("puts block_001 on the stages 0, 1"));
  EXPECT_EQ(placed({{0, {"block_0..1", "block_1"}}, {1, {"block_2..3"}}}), "") << "twice for the same stage";
}

}  // namespace
}  // namespace mtf::testing
