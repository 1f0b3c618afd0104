// Hundreds of random graphs under random layouts: no layout and no pass changes the results.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/spmd/passes/passes.h"
#include "tests/support/budget.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const char* const kMeshes[] = {"x:2", "x:3", "x:2;y:2", "x:2;y:3", "x:2;y:2;z:2"};

MeshRunOptions options_for(const RandomGraph& random) {
  MeshRunOptions options;
  options.steps = 2;
  options.threads = 1;
  options.variables = random.variables;
  return options;
}

void expect_equal(const MeshRun& actual, const MeshRun& expected, const std::string& what) {
  EXPECT_EQ(actual.outputs, expected.outputs) << what << "\n" << actual.program.to_string();
  EXPECT_EQ(actual.variables, expected.variables) << what << "\n" << actual.program.to_string();
}

/// Calls test(random graph, legal layouts on a mesh of several positions, description) for `count` cases.
void for_random_programs(
    int count, const std::function<void(const RandomGraph&, const Layouts&, const std::string&)>& test) {
  int legal = 0;
  for (uint32_t seed = 0; legal < tries(count); ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const char* mesh : kMeshes) {
      const std::unique_ptr<Layouts> layouts = random_layouts(seed, *random.graph, mesh);
      if (!layouts || layouts->activation.empty()) continue;
      test(random, *layouts, "seed " + std::to_string(seed) + " on " + mesh);
      ++legal;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(RandomPrograms, OnePositionGivesWhatTheOperationsGive) {
  for (int seed = 0; seed < tries(200); ++seed) {
    const RandomGraph random = random_graph(seed);
    MeshRunOptions options = options_for(random);
    options.steps = 1;
    const MeshRun run = run_on_mesh(*random.graph, Layouts::single(), random.feeds, options);
    EvaluateOptions reference;
    reference.variables = random.variables;
    for (const auto& [name, tensor] : random.graph->outputs()) {
      EXPECT_EQ(run.outputs.at(name), evaluate(*random.graph, {tensor}, random.feeds, reference)[0]) << name;
    }
    EXPECT_EQ(run.variables, evaluate_step(*random.graph, random.feeds, reference))
        << run.program.to_string();
    if (HasFailure()) return;
  }
}

TEST(RandomPrograms, EveryLayoutGivesWhatOnePositionGives) {
  for_random_programs(400, [](const RandomGraph& random, const Layouts& layouts, const std::string& what) {
    MeshRunOptions options = options_for(random);
    const MeshRun single = run_on_mesh(*random.graph, Layouts::single(), random.feeds, options);
    expect_equal(run_on_mesh(*random.graph, layouts, random.feeds, options), single,
                 what + ", replicas checked");
    options.check_replicas = false;
    options.threads = 2;
    expect_equal(run_on_mesh(*random.graph, layouts, random.feeds, options), single, what);
  });
}

/// Tests each number of processes above 1 that divides the number of positions. What a position sends does
/// not depend on where the others are.
TEST(RandomPrograms, AnyNumberOfProcessesGivesTheBitsOfOne) {
  for_random_programs(150, [](const RandomGraph& random, const Layouts& layouts, const std::string& what) {
    MeshRunOptions options = options_for(random);
    const MeshRun one = run_on_mesh(*random.graph, layouts, random.feeds, options);
    for (int processes = 2; processes <= layouts.mesh.size(); ++processes) {
      if (layouts.mesh.size() % processes != 0) continue;
      options.check_replicas = processes % 2 == 0;
      // A collective lands at once, or as late as its result allows.
      options.partition.flights.more = processes == 2 ? 0 : int64_t{1} << 40;
      double sent = 0;
      for (const MeshRun& run : run_on_processes(processes, *random.graph, layouts, random.feeds, options)) {
        expect_equal(run, one, what + " with " + std::to_string(processes) + " processes");
        sent += run.counters.bytes_per_position / processes;
      }
      EXPECT_NEAR(sent, one.counters.bytes_per_position, 1e-9 * sent)
          << what << " with " << processes << " processes";
    }
  });
}

/// Results wait for the backward pass in memory of their own, between copies. Few programs have such results: a fifth of these
/// must be enough (MTF_TEST_BUDGET).
TEST(RandomPrograms, OffloadingKeepsTheBits) {
  int64_t moved = 0;
  for_random_programs(260, [&](const RandomGraph& random, const Layouts& layouts, const std::string& what) {
    MeshRunOptions options = options_for(random);
    const MeshRun before = run_on_mesh(*random.graph, layouts, random.feeds, options);
    options.partition.offloaded_bytes = 1;
    const MeshRun after = run_on_mesh(*random.graph, layouts, random.feeds, options);
    expect_equal(after, before, what);
    moved += std::ranges::count_if(after.program.values, &Value::on_host);
    const auto processes = static_cast<int>(layouts.mesh.size());
    for (const MeshRun& run : run_on_processes(processes, *random.graph, layouts, random.feeds, options))
      expect_equal(run, before, what + " in processes");
  });
  EXPECT_GT(moved, 0);
}

struct Pass {
  const char* name;
  std::function<Program(Program)> run;
};

const Pass kPasses[] = {
    {"fuse_reduce_scatter", fuse_reduce_scatter},
    {"start_reductions_early", start_reductions_early},
    {"schedule_gathers", [](Program p) { return schedule_gathers(std::move(p), 1); }},
    {"bucket_reductions", [](Program p) { return bucket_reductions(std::move(p), 512); }},
    {"group_segments", group_segments},
    {"split_collectives", split_collectives},
    {"reuse_memory", reuse_memory},
    {"land_collectives",
     [](Program p) { return land_collectives(reuse_memory(split_collectives(std::move(p)))); }},
    {"offload_activations", [](Program p) { return offload_activations(std::move(p), 1); }},
};

TEST(RandomPrograms, EachPassAloneKeepsTheResults) {
  for_random_programs(150, [](const RandomGraph& random, const Layouts& layouts, const std::string& what) {
    MeshRunOptions options = options_for(random);
    options.check_replicas = false;
    const Program lowered = lower(*random.graph, layouts);
    const MeshRun before = run_program(lowered, random.feeds, options);
    for (const Pass& pass : kPasses) {
      expect_equal(run_program(pass.run(lowered), random.feeds, options), before, what + ", " + pass.name);
    }
  });
}

/// The bytes that one position sends in a run of these instructions.
double predicted_bytes(const Program& program, const std::vector<Instruction>& block) {
  double bytes = 0;
  for (const Instruction& instruction : block) {
    bytes += instruction.is<action::Loop>()
                 ? static_cast<double>(instruction.count()) * predicted_bytes(program, instruction.body())
                 : bytes_sent(program, instruction);
  }
  return bytes;
}

TEST(RandomPrograms, TheBytesCountedAreThosePredicted) {
  for_random_programs(200, [](const RandomGraph& random, const Layouts& layouts, const std::string& what) {
    MeshRunOptions options = options_for(random);
    options.check_replicas = false;
    const MeshRun run = run_on_mesh(*random.graph, layouts, random.feeds, options);
    const std::vector<Instruction>& all = run.program.instructions;
    const bool guarded = std::any_of(all.begin(), all.end(), [](const Instruction& instruction) {
      return instruction.is_collective() && instruction.guard != kNoValue;
    });
    if (guarded) return;  // sends nothing where the guard does not hold
    const double predicted = 2 * predicted_bytes(run.program, run.program.instructions);
    EXPECT_NEAR(run.counters.bytes_per_position, predicted, 1e-9 * predicted) << what << "\n"
                                                                              << run.program.to_string();
    options.check_replicas = true;
    const MeshRun replicated = run_on_mesh(*random.graph, layouts, random.feeds, options);
    EXPECT_NEAR(replicated.counters.bytes_per_position, predicted, 1e-9 * predicted) << what;
  });
}

TEST(RandomPrograms, TextsAreReproducible) {
  for (int seed = 0; seed < tries(50); ++seed) {
    const RandomGraph a = random_graph(seed), b = random_graph(seed);
    const std::unique_ptr<Layouts> layouts = random_layouts(seed, *a.graph, "x:2;y:2");
    if (!layouts) continue;
    const Program first = partition(*a.graph, *layouts), second = partition(*b.graph, *layouts);
    EXPECT_EQ(first.to_string(), second.to_string());
    EXPECT_EQ(program_hash(first), program_hash(second));
  }
}

}  // namespace
}  // namespace mtf::testing
