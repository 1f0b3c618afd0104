#include "engine/runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "engine/graph/gradients.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/runtime/prepared_program.h"
#include "engine/spmd/instruction_uses.h"
#include "engine/spmd/passes/passes.h"
#include "tests/support/budget.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

/// An instruction in order of execution, with loops unrolled; `again` is false in the first iteration.
struct Executed {
  const Instruction* instruction;
  bool again;
};

void unroll(const std::vector<Instruction>& block, bool again, std::vector<Executed>& trace) {
  for (const Instruction& instruction : block) {
    if (instruction.is<action::Loop>()) {
      for (int64_t i = 0; i < instruction.count(); ++i) unroll(instruction.body(), again || i > 0, trace);
    } else {
      trace.push_back({&instruction, again});
    }
  }
}

/// Checks, instruction by instruction and backwards, that no result overwrites a value that is read later.
void expect_no_overlap(const Program& program, const MemoryPlan& plan, const std::string& what) {
  std::vector<Executed> trace;
  unroll(program.instructions, false, trace);
  std::set<ValueId> live;
  for (const auto& [name, id] : program.outputs) live.insert(program.root(id));
  for (auto it = trace.rbegin(); it != trace.rend(); ++it) {
    const Instruction& instruction = *it->instruction;
    std::set<ValueId> kept = live;
    for (ValueId id : reads(instruction)) kept.insert(program.root(id));
    for (ValueId output : instruction.outputs) kept.insert(program.root(output));
    for (ValueId output : instruction.outputs) {
      const ValueId result = program.root(output);
      if (program.values[result].storage != Value::Storage::kTemporary) continue;
      ASSERT_GE(plan.offsets[result], 0) << what;
      for (ValueId other : kept) {
        if (other == result || plan.offsets[other] < 0) continue;
        if (program.values[other].on_host != program.values[result].on_host) continue;
        if (plan.arena_of(program.values[other].varies) != plan.arena_of(program.values[result].varies))
          continue;
        const bool apart = plan.offsets[result] + program.local_bytes(result) <= plan.offsets[other] ||
                           plan.offsets[other] + program.local_bytes(other) <= plan.offsets[result];
        ASSERT_TRUE(apart) << what << ": " << to_string(program, instruction) << " overwrites %"
                           << program.values[other].name << "\n"
                           << program.to_string();
      }
    }
    const bool adds = instruction.is<action::Place>() || instruction.is<action::Accumulate>();
    const bool sets = instruction.guard == kNoValue && !(adds && it->again);
    for (ValueId output : instruction.outputs) {
      if (sets) {
        live.erase(program.root(output));
      } else {
        live.insert(program.root(output));
      }
    }
    for (ValueId id : reads(instruction)) live.insert(program.root(id));
  }
}

TEST(MemoryPlan, NoResultOverwritesAValueThatIsReadLater) {
  int planned = 0;
  int64_t moved = 0;
  for (uint32_t seed = 0; planned < tries(400); ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const char* mesh : {"x:1", "x:2;y:2", "x:2;y:3"}) {
      const std::unique_ptr<Layouts> layouts = random_layouts(seed, *random.graph, mesh);
      if (!layouts) continue;
      // Every other case is distributed, with one process for each position.
      const bool is_distributed = planned % 2 == 1;
      const auto offloaded = planned % 3 == 2 ? std::optional<int64_t>(1) : std::nullopt;
      const Program program =
          partition(*random.graph, *layouts, {.asynchronous = is_distributed, .offloaded_bytes = offloaded});
      moved += std::ranges::count_if(program.values, &Value::on_host);
      const int processes = is_distributed ? static_cast<int>(layouts->mesh.size()) : 1;
      const MemoryPlan plan = plan_memory(program, false, {processes, processes / 2});
      expect_no_overlap(program, plan, "seed " + std::to_string(seed) + " on " + mesh);
      if (HasFatalFailure()) return;
      for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
        if (plan.offsets[id] < 0) continue;
        EXPECT_EQ(plan.offsets[id] % 64, 0);
        const auto& arenas = program.values[id].on_host ? plan.host_arenas : plan.arenas;
        EXPECT_LE(plan.offsets[id] + program.local_bytes(id),
                  arenas.at(plan.arena_of(program.values[id].varies)).bytes);
      }
      ++planned;
    }
  }
  EXPECT_GT(moved, 0);
}

TEST(MemoryPlan, ReusesTheMemoryOfValuesThatAreDead) {
  Graph graph;
  const Dimension n{"n", 1024};
  Tensor t = graph.input("x", {n});
  for (int i = 0; i < 20; ++i) t = einsum({t, graph.constant(2, DType::kFloat32, {n, {"m", 8}})}, {n});
  graph.set_output("y", reduce_sum(t, Shape{}));
  const MemoryPlan plan = plan_memory(partition(graph, Layouts::single()));
  EXPECT_LE(plan.position().temporaries, 3 * 1024 * 8 * 4);
  EXPECT_EQ(plan.position().inputs, 4096);
}

TEST(MemoryPlan, ScratchIsThatOfTheKernelsThatAreMade) {
  int planned = 0;
  for (uint32_t seed = 0; planned < tries(60); ++seed) {
    const RandomGraph random = random_graph(seed);
    const std::unique_ptr<Layouts> layouts = random_layouts(seed, *random.graph, "x:2;y:2");
    if (!layouts) continue;
    const Program program = partition(*random.graph, *layouts);
    const std::shared_ptr<Backend> backend = test_backend();
    VariableStore variables(*backend, program.mesh, program.variables);
    InProcessCommunicator communicator;
    Workspace workspace(*backend, 1);
    const PreparedProgram prepared(program, *backend, communicator, variables, workspace, 1, false);
    EXPECT_EQ(kernel_scratch_bytes(program, *backend),
              whole_pages(static_cast<int64_t>(prepared.scratch_bytes())));
    ++planned;
  }
}

TEST(MemoryPlan, PositionsShareWhatTheyAllHold) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 64}, {"in", 16}});
  const Tensor w =
      graph.read(graph.variable("w", {{"in", 16}, {"out", 16}}, DType::kFloat32, Initializer::zeros()));
  graph.set_output("y", einsum({x, w}, {{"batch", 64}, {"out", 16}}));
  const MemoryPlan plan = plan_memory(partition(graph, layouts("all:4", "batch:all")));
  EXPECT_EQ(plan.position().variables, 1024);
  EXPECT_EQ(plan.position().inputs, 1024);
  EXPECT_EQ(plan.position().temporaries, 1024);
  EXPECT_EQ(plan.position().total(), 3072);
  EXPECT_EQ(plan.process.variables, 4096);   // one copy of w, rounded up to a page
  EXPECT_EQ(plan.process.inputs, 2 * 4096);  // with the number of the step
  EXPECT_EQ(plan.process.temporaries, 4096);
  const MemoryPlan::Process all = plan_memory(partition(graph, layouts("all:4", "batch:all")), true).process;
  EXPECT_EQ(all.variables + all.inputs + all.temporaries, 4 * 3072 + 4096);
}

constexpr int kLayers = 12;
constexpr int64_t kWidth = 64;

/// A training step with Adam of a network of 12 layers on a batch of 8, which is small compared with the
/// weights.
void build_deep_network(Graph& graph, int64_t width = kWidth) {
  const Dimension batch{"batch", 8}, even{"even", width}, odd{"odd", width};
  Tensor h = graph.input("x", {batch, even});
  Tensors weights;
  for (int i = 0; i < kLayers; ++i) {
    const Graph::Scope layer = graph.layer();
    const Dimension &from = i % 2 == 0 ? even : odd, &to = i % 2 == 0 ? odd : even;
    weights.push_back(graph.read(
        graph.variable("w" + std::to_string(i), {from, to}, DType::kFloat32, Initializer::normal(0.1))));
    h = relu(einsum({h, weights.back()}, {batch, to}));
  }
  const Tensor loss = reduce_mean(square(h), Shape{});
  graph.set_output("loss", loss);
  const Tensors gradients = mtf::gradients({loss}, weights);
  const Graph::Scope phase = graph.phase(Phase::kUpdate);
  const Graph::Scope domain = graph.domain(Domain::kOptimizer);
  const Tensor rate = graph.constant(0.1);
  for (int i = 0; i < kLayers; ++i) {
    const Variable& w = *graph.find_variable("w" + std::to_string(i));
    const Variable& m =
        graph.variable(w.name + "/m", w.shape, w.dtype, Initializer::zeros(), Variable::Kind::kSlot);
    const Variable& v =
        graph.variable(w.name + "/v", w.shape, w.dtype, Initializer::zeros(), Variable::Kind::kSlot);
    const AdamUpdate update = adam_update(weights[static_cast<size_t>(i)], gradients[static_cast<size_t>(i)],
                                          graph.read(m), graph.read(v), rate);
    graph.assign(w, update.weight);
    graph.assign(m, update.first_moment);
    graph.assign(v, update.second_moment);
  }
}

MemoryPlan plan_of_deep_network(const Layouts& layouts, const PartitionOptions& options = {}) {
  Graph graph;
  build_deep_network(graph);
  return plan_memory(partition(graph, layouts, options));
}

constexpr int64_t kLayerBytes = kWidth * kWidth * 4;
constexpr int64_t kActivationBytes = 3 * kLayers * kWidth * 4 + 4096;  // on one of 8 positions, and scalars

TEST(MemoryPlan, FullyShardedParametersGradientsAndSlotsTakeAnEighth) {
  const MemoryPlan single = plan_of_deep_network(Layouts::single());
  EXPECT_EQ(single.position().variables, 3 * kLayers * kLayerBytes);
  const MemoryPlan plan = plan_of_deep_network(layouts("all:8", "batch:all", "even:all"));
  EXPECT_EQ(plan.position().variables, 3 * kLayers * kLayerBytes / 8);
  const int64_t gradients = kLayers * kLayerBytes / 8;
  EXPECT_LE(plan.position().temporaries, gradients + 2 * kLayerBytes + kActivationBytes);
  PartitionOptions kept;
  kept.keep_gathered = true;
  EXPECT_GT(plan_of_deep_network(layouts("all:8", "batch:all", "even:all"), kept).position().temporaries,
            kLayers / 2 * kLayerBytes);
}

TEST(MemoryPlan, ShardedOptimizerSlotsTakeAnEighth) {
  const MemoryPlan plan = plan_of_deep_network(layouts("all:8", "batch:all", "", "even:all"));
  EXPECT_EQ(plan.position().variables, kLayers * kLayerBytes + 2 * kLayers * kLayerBytes / 8);
}

/// The ratio of the temporaries of a position in a process of its own to those of a position if one process
/// has all.
double growth(const Layouts& layouts, PartitionOptions options = {}) {
  Graph graph;
  build_deep_network(graph, 512);  // a weight fills a bucket
  const MemoryPlan one = plan_memory(partition(graph, layouts, options));
  options.asynchronous = true;
  const MemoryPlan many =
      plan_memory(partition(graph, layouts, options), false, {static_cast<int>(layouts.mesh.size()), 1});
  EXPECT_EQ(many.process.temporaries, whole_pages(many.position().temporaries))
      << "one position has one arena";
  return static_cast<double>(many.position().temporaries) / static_cast<double>(one.position().temporaries);
}

TEST(MemoryPlan, APositionInAProcessOfItsOwnTakesATenthMoreAtMost) {
  const PartitionOptions cpu, cuda{.fuse_epilogues = true, .fuse_elementwise = true, .group_variables = true};
  for (const PartitionOptions& options : {cpu, cuda}) {
    EXPECT_LE(growth(layouts("all:8", "batch:all"), options), 1.1) << "data parallel";
    EXPECT_LE(growth(layouts("all:8", "batch:all", "", "even:all"), options), 1.1) << "ZeRO";
    EXPECT_LE(growth(layouts("all:8", "batch:all", "even:all"), options), 1.1) << "FSDP";
    EXPECT_LE(growth(layouts("rows:4;cols:2", "batch:rows;odd:cols", "even:rows"), options), 1.1);
  }
  PartitionOptions unbounded;
  unbounded.flights.more = int64_t{1} << 40;
  EXPECT_GT(growth(layouts("all:8", "batch:all"), unbounded), 1.5);
}

}  // namespace
}  // namespace mtf::testing
