#include "engine/runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <random>
#include <span>
#include <thread>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/optimizer_updates.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "tests/support/amx_emulator.h"
#include "tests/support/budget.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

Tensor weight(Graph& graph, const std::string& name, const Shape& shape) {
  return graph.read(graph.variable(name, shape, DType::kFloat32, Initializer::normal(0.05)));
}

/// A step of gradient descent on sizes that are not divisible by a power of two.
void build_awkward_step(Graph& graph) {
  const Dimension batch{"batch", 210}, inputs{"inputs", 785}, hidden{"hidden", 999}, classes{"classes", 11};
  const Tensor x = graph.input("x", {batch, inputs});
  const Tensor w1 = weight(graph, "w1", {inputs, hidden}), b1 = weight(graph, "b1", {hidden});
  const Tensor w2 = weight(graph, "w2", {hidden, classes});
  const Tensor h = relu(einsum({x, w1}, {batch, hidden}) + b1);
  const Tensor loss = reduce_mean(square(einsum({h, w2}, {batch, classes})), Shape{});
  graph.set_output("loss", loss);
  const Tensors weights{w1, b1, w2}, g = gradients({loss}, weights);
  const Tensor rate = graph.constant(0.1);
  const char* const names[] = {"w1", "b1", "w2"};
  for (size_t i = 0; i < 3; ++i)
    graph.assign(*graph.find_variable(names[i]), sgd_update(weights[i], g[i], rate));
}

std::vector<float> noise(int64_t n) {
  std::mt19937 random(3);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = std::normal_distribution<float>()(random);
  return values;
}

/// Three steps, or two with a small budget.
uint64_t steps_of_tests() { return static_cast<uint64_t>(std::clamp(tries(3), 2, 3)); }

/// The bytes of losses and of the final weights after steps_of_tests() steps.
std::vector<std::byte> bits_after_training(const Layouts& layouts, int threads, bool random_sleeps,
                                           MatmulPrecision precision = MatmulPrecision::kFull) {
  Graph graph;
  graph.set_matmul_precision(precision);
  build_awkward_step(graph);
  const Program program = partition(graph, layouts);
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore variables(*backend, layouts.mesh, program.variables);
  variables.initialize(1);
  ExecutorOptions options{.threads = threads};
  if (random_sleeps) {
    options.before_task = [] {
      thread_local std::mt19937 random(
          static_cast<uint32_t>(std::hash<std::thread::id>()(std::this_thread::get_id())));
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    };
  }
  Executor executor(program, *backend, variables, options);
  const std::vector<float> x = noise(210 * 785);
  std::vector<std::byte> bits;
  for (uint64_t step = 0; step < steps_of_tests(); ++step) {
    executor.feed("x", x.data());
    executor.run(step);
    const std::vector<std::byte> loss = executor.fetch("loss").bytes;
    bits.insert(bits.end(), loss.begin(), loss.end());
  }
  for (const char* name : {"w1", "b1", "w2"}) {
    const std::vector<std::byte> w = variables.get(name).bytes;
    bits.insert(bits.end(), w.begin(), w.end());
  }
  return bits;
}

TEST(Executor, ThreadsAndTimingDoNotChangeABit) {
  const std::vector<Layouts> all{layouts("rows:3;cols:3", "batch:rows;hidden:cols"), Layouts::single(),
                                 layouts("all:3", "batch:all", "hidden:all"), layouts("all:3", "batch:all"),
                                 layouts("all:3", "hidden:all")};
  for (const Layouts& layouts : std::span(all).first(std::min<size_t>(all.size(), tries(6)))) {
    const std::vector<std::byte> expected = bits_after_training(layouts, 1, false);
    const std::array<int, 4> counts = {7, 2, 4, 3};
    for (const int threads : std::span(counts).first(static_cast<size_t>(std::min(4, tries(4))))) {
      EXPECT_EQ(bits_after_training(layouts, threads, false), expected) << threads << " threads";
      EXPECT_EQ(bits_after_training(layouts, threads, true), expected) << threads << " threads that sleep";
    }
  }
}

TEST(Executor, BytesOfAnInputBecomeNumbersFrom0To1) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 6}, {"b", 10}});
  graph.set_output("y", x + x);
  std::vector<uint8_t> bytes(60);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(255 - 4 * i);
  for (const Layouts& layouts : {Layouts::single(), layouts("rows:2", "a:rows"), layouts("cols:2", "b:cols"),
                                 layouts("rows:2;cols:2", "a:rows;b:cols"), layouts("all:8", "")}) {
    const Program program = partition(graph, layouts);
    const std::shared_ptr<Backend> backend = test_backend();
    VariableStore variables(*backend, layouts.mesh, program.variables);
    Executor executor(program, *backend, variables, {.threads = 2});
    executor.feed("x", {bytes.data(), x.shape(), {}, true});
    executor.run(0);
    const HostTensor y = executor.fetch("y");
    for (size_t i = 0; i < bytes.size(); ++i)
      ASSERT_EQ(y.data<float>()[i], 2 * (static_cast<float>(bytes[i]) / 255.0f))
          << layouts.mesh.to_string() << i;
  }
}

TEST(Executor, NumbersThatWouldBeDenormalAreZeroOnProcessors) {
  if (!test_backend()->is_host()) GTEST_SKIP() << "devices have no slow numbers";
  Graph graph;
  const Dimension rows{"rows", 40};
  const Tensor x = graph.input("x", {rows});
  graph.set_output("product", x * graph.constant(0.9));
  graph.set_output("smallest", x * graph.constant(1));
  const float smallest = std::numeric_limits<float>::min();
  const MeshRun run = run_on_mesh(graph, Layouts::single(), {{"x", Values(40, smallest)}});
  EXPECT_THAT(run.outputs.at("product"), ::testing::Each(0));
  EXPECT_THAT(run.outputs.at("smallest"), ::testing::Each(smallest));
}

TEST(Executor, ProgramsThatShareAWorkspaceRunInTurns) {
  const std::shared_ptr<Backend> backend = test_backend();
  Workspace workspace(*backend, 2);
  const std::vector<float> x = noise(210 * 785);
  const std::array<Layouts, 3> all{Layouts::single(), layouts("rows:3;cols:3", "batch:rows;hidden:cols"),
                                   layouts("all:3", "batch:all")};
  std::vector<Program> programs;
  for (const Layouts& layouts : all) {
    Graph graph;
    build_awkward_step(graph);
    programs.push_back(partition(graph, layouts));
  }
  const auto losses = [&](Workspace* shared) {
    std::deque<VariableStore> variables;
    std::deque<Executor> executors;
    for (const Program& program : programs) {
      variables.emplace_back(*backend, program.mesh, program.variables).initialize(1);
      executors.emplace_back(program, *backend, variables.back(), ExecutorOptions{.workspace = shared});
    }
    std::vector<double> losses;
    for (uint64_t step = 0; step < steps_of_tests(); ++step) {
      for (Executor& executor : executors) {
        executor.feed("x", x.data());
        executor.run(step);
        losses.push_back(executor.scalar("loss"));
      }
    }
    return losses;
  };
  EXPECT_EQ(losses(&workspace), losses(nullptr));
}

TEST(SharedMemory, GrowsForThoseWhoNeedMore) {
  const std::shared_ptr<Backend> backend = test_backend();
  SharedMemory memory(*backend);
  const auto first = memory.at_least(1000);
  EXPECT_EQ(memory.at_least(10), first);
  const auto second = memory.at_least(2000);
  EXPECT_NE(second, first);
  EXPECT_EQ(memory.at_least(1000), second);
  EXPECT_EQ(memory.bytes(), 2000);
}

TEST(Executor, ThreadsDoNotChangeABitOfProductsInBFloat16) {
  for (const Layouts& layouts : {Layouts::single(), layouts("rows:3;cols:3", "batch:rows;hidden:cols")}) {
    const auto bits = [&](int threads) {
      return bits_after_training(layouts, threads, false, MatmulPrecision::kBFloat16);
    };
    const std::vector<std::byte> expected = bits(1);
    EXPECT_NE(expected, bits_after_training(layouts, 1, false));
    for (const int threads : {2, 5}) EXPECT_EQ(bits(threads), expected) << threads << " threads";
  }
}

TEST(Executor, ThreadsDoNotChangeABitOfProductsByAmx) {
  const auto bits = [layouts = layouts("rows:3;cols:3", "batch:rows;hidden:cols")](int threads) {
    return bits_after_training(layouts, threads, false, MatmulPrecision::kBFloat16);
  };
  const WithAmx amx;
  if (!amx.works() || !test_backend()->is_host())
    GTEST_SKIP() << "there is no AVX512-BF16, with which AMX comes";
  const std::vector<std::byte> expected = bits(2);
  {
    const WithInstructionSet without_amx(InstructionSet::kAvx512);
    EXPECT_NE(expected, bits(1));
  }
  EXPECT_EQ(bits(5), expected);
}

TEST(Executor, RandomProgramsAreTheSameOnAnyNumberOfThreads) {
  int run = 0;
  for (uint32_t seed = 0; run < tries(40); ++seed) {
    const RandomGraph random = random_graph(seed);
    const std::unique_ptr<Layouts> layouts = random_layouts(seed, *random.graph, "x:2;y:3");
    if (!layouts) continue;
    MeshRunOptions options;
    options.variables = random.variables;
    options.check_replicas = false;
    options.threads = 1;
    const MeshRun expected = run_on_mesh(*random.graph, *layouts, random.feeds, options);
    for (const int threads : {2, 4, 7}) {
      options.threads = threads;
      const MeshRun actual = run_on_mesh(*random.graph, *layouts, random.feeds, options);
      EXPECT_EQ(actual.outputs, expected.outputs);
      EXPECT_EQ(actual.variables, expected.variables);
    }
    ++run;
  }
}

TEST(Executor, AFalseGuardLeavesVariablesAsTheyAre) {
  Graph graph;
  const Dimension a{"a", 4};
  const Tensor w = weight(graph, "w", {a}), limit = graph.input("limit", {});
  weight(graph, "v", {a});
  const Tensor guard = less(reduce_sum(w, Shape{}), limit);
  const Tensor grown = w + w;
  graph.assign(*graph.find_variable("w"), grown, guard);
  graph.assign(*graph.find_variable("v"), w, guard);
  graph.set_output("grown", grown);
  for (const Layouts& layouts : {Layouts::single(), layouts("x:2", "a:x")}) {
    MeshRunOptions options;
    options.variables = {{"w", {1, 2, 3, 4}}, {"v", {0, 0, 0, 0}}};
    options.steps = 2;
    // The guard compares 10 < 11 in the first step, and 20 < 11 in the second.
    const MeshRun run = run_on_mesh(graph, layouts, {{"limit", {11}}}, options);
    EXPECT_EQ(run.variables.at("w"), (Values{2, 4, 6, 8}));
    EXPECT_EQ(run.variables.at("v"), (Values{1, 2, 3, 4}));
    EXPECT_EQ(run.outputs.at("grown"), (Values{4, 8, 12, 16}));
  }
}

TEST(Executor, MicrobatchesTakeEveryNthExampleAndPlaceItBack) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 8}, {"a", 2}});
  const Tensors results = repeat(graph, 2, {graph.constant(0)}, {"batch", 2}, [&](const Tensors& carried) {
    const Tensor part = microbatch_slice(x);
    return LoopResult{
        {scalar_add(carried[0], 1)}, {reduce_sum(part, {{"a", 2}})}, {scalar_multiply(part, 10)}};
  });
  graph.set_output("count", results[0]);
  graph.set_output("sum", results[1]);
  graph.set_output("placed", results[2]);
  Values x_values, tenfold;
  for (int i = 0; i < 16; ++i) {
    x_values.push_back(i);
    tenfold.push_back(10 * i);
  }
  for (const Layouts& layouts : {Layouts::single(), layouts("x:2", "batch:x"), layouts("x:4", "batch:x"),
                                 layouts("x:2;y:2", "batch:x;a:y"), layouts("x:2;y:2", "a:x")}) {
    const MeshRun run = run_on_mesh(graph, layouts, {{"x", x_values}});
    EXPECT_EQ(run.outputs.at("count"), Values{2});
    EXPECT_EQ(run.outputs.at("sum"), (Values{56, 64}));
    EXPECT_EQ(run.outputs.at("placed"), tenfold);
  }
}

TEST(Executor, LoopsInsideLoops) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}});
  const Tensors outer = repeat(graph, 3, {graph.constant(0)}, {}, [&](const Tensors& carried) {
    const Tensors inner = repeat(graph, 2, {carried[0]}, {}, [&](const Tensors& c) {
      return LoopResult{{scalar_add(c[0], 1)}, {x * c[0]}, {}};
    });
    return LoopResult{{inner[0]}, {inner[1], reduce_sum(inner[1], Shape{})}, {}};
  });
  for (int i = 0; i < 3; ++i) graph.set_output(std::to_string(i), outer[static_cast<size_t>(i)]);
  for (const Layouts& layouts : {Layouts::single(), layouts("x:2", "a:x")}) {
    const MeshRun run = run_on_mesh(graph, layouts, {{"x", {1, 2, 3, 4}}});
    EXPECT_EQ(run.outputs.at("0"), Values{6});
    EXPECT_EQ(run.outputs.at("1"), (Values{15, 30, 45, 60}));
    EXPECT_EQ(run.outputs.at("2"), Values{150});
  }
}

/// y = x + x on two positions that both hold x. With `spoil`, the second one has a different value.
struct Replicas {
  Replicas() {
    const Graph::Scope scope = graph.scope("layer_7");
    const Tensor w = weight(graph, "w", {{"a", 4}});
    graph.set_output("y", w + w);
    program = partition(graph, layouts("x:2", "b:x"));
  }
  Graph graph;
  Program program;
  std::shared_ptr<Backend> backend = test_backend();
};

TEST(Executor, CheckReplicasFindsADifference) {
  Replicas replicas;
  VariableStore variables(*replicas.backend, replicas.program.mesh, replicas.program.variables,
                          {.replicate = true});
  variables.initialize(1);
  Executor executor(replicas.program, *replicas.backend, variables, {.threads = 2, .check_replicas = true});
  EXPECT_NO_THROW(executor.run(0));
  std::byte changed{};
  replicas.backend->read(&changed, variables.slice("w", 1) + 5, 1);
  changed ^= std::byte{1};
  replicas.backend->write(variables.slice("w", 1) + 5, &changed, 1);
  try {
    executor.run(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("positions 0 and 1 hold different replicas after %1 = add(%w, %w)"));
    EXPECT_EQ(error.exit_code(), 1);
  }
}

TEST(Executor, NamesTheFirstInstructionThatIsNotFinite) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}});
  Tensor y = negative(x);
  {
    const Graph::Scope scope = graph.scope("decoder/layer_3");
    y = log(y);
  }
  graph.set_output("y", reduce_sum(square(y), Shape{}));
  const Program program = partition(graph, layouts("x:2", "a:x"));
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore variables(*backend, program.mesh, program.variables);
  Executor executor(program, *backend, variables, {.threads = 2});
  const float good[] = {-1, -2, -3, -4}, bad[] = {-1, -2, -3, 4};
  executor.feed("x", good);
  EXPECT_FALSE(executor.first_non_finite(0));
  executor.feed("x", bad);
  const std::optional<NonFinite> found = executor.first_non_finite(0);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->tensor, HasSubstr("= log("));
  EXPECT_THAT(found->tensor, HasSubstr(") f32[a=4/x]"));
  EXPECT_EQ(found->operation, "log");
  EXPECT_EQ(found->layer, "decoder/layer_3");
  // The counts include the slices of both positions: log 1, log 2, log 3, log -4.
  EXPECT_EQ(found->count, 4);
  EXPECT_EQ(found->nans, 1);
  EXPECT_EQ(found->infinities, 0);
  EXPECT_FLOAT_EQ(static_cast<float>(found->smallest), 0);
  EXPECT_FLOAT_EQ(static_cast<float>(found->largest), std::log(3.0f));
  executor.feed("x", good);
  EXPECT_FALSE(executor.first_non_finite(0));
}

TEST(Executor, NamesAnInputOrVariableThatIsNotFiniteBeforeAnyInstruction) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}}), w = weight(graph, "layer/w", {{"a", 4}});
  graph.set_output("y", reduce_sum(multiply(x, w), Shape{}));
  const Program program = partition(graph, layouts("x:2", "a:x"));
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore variables(*backend, program.mesh, program.variables);
  variables.initialize(1);
  Executor executor(program, *backend, variables, {.threads = 2});
  const float infinity = std::numeric_limits<float>::infinity();
  const float good[] = {1, 2, 3, 4}, bad[] = {1, -infinity, 3, infinity};
  executor.feed("x", bad);
  std::optional<NonFinite> found = executor.first_non_finite(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tensor, "input `x`");
  EXPECT_EQ(found->operation, "");
  EXPECT_EQ(found->infinities, 2);
  EXPECT_EQ(found->smallest, 1);
  EXPECT_EQ(found->largest, 3);
  executor.feed("x", good);
  HostTensor value = variables.get("layer/w");
  for (int i = 0; i < 4; ++i) value.data<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  variables.set("layer/w", value);
  found = executor.first_non_finite(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tensor, "variable `layer/w`");
  EXPECT_EQ(found->nans, 4);
  EXPECT_EQ(found->smallest, 0);
  EXPECT_EQ(found->largest, 0);
}

TEST(Executor, ProcessesAgreeOnTheEarliestValueThatIsNotFinite) {
  // Position 3 computes the logarithm; the others see only its effect on the sum.
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 8}});
  Tensor y;
  {
    const Graph::Scope scope = graph.scope("decoder/layer_3");
    y = log(x);
  }
  graph.set_output("y", square(reduce_sum(y, Shape{})));
  PartitionOptions asynchronous;
  asynchronous.asynchronous = true;
  const Program program = partition(graph, layouts("x:4", "a:x"), asynchronous);
  const float bad[] = {1, 2, 3, 4, 5, 6, 7, -8};
  for (const int processes : {1, 2, 4}) {
    std::vector<std::optional<NonFinite>> found(static_cast<size_t>(processes));
    on_processes(processes, [&](int process, Communicator& communicator) {
      const std::shared_ptr<Backend> backend = test_backend(process);
      VariableStore variables(*backend, program.mesh, program.variables, {.communicator = &communicator});
      Executor executor(program, *backend, variables, {.threads = 1, .communicator = &communicator});
      executor.feed("x", bad);
      found[static_cast<size_t>(process)] = executor.first_non_finite(0);
    });
    for (const std::optional<NonFinite>& culprit : found) {
      ASSERT_TRUE(culprit) << processes << " processes";
      EXPECT_EQ(culprit->operation, "log") << processes << " processes";
      EXPECT_EQ(culprit->layer, "decoder/layer_3");
      EXPECT_EQ(culprit->nans, 1);
      EXPECT_EQ(culprit->count, 8 / processes);
    }
  }
}

TEST(Executor, NamesTheCollectiveWhoseSumIsNotFinite) {
  Graph graph;
  graph.set_output("y", square(reduce_sum(graph.input("x", {{"a", 2}}), Shape{})));
  PartitionOptions asynchronous;
  asynchronous.asynchronous = true;
  const Program program = partition(graph, layouts("x:2", "a:x"), asynchronous);
  const float large[] = {3e38F, 3e38F};
  on_processes(2, [&](int process, Communicator& communicator) {
    const std::shared_ptr<Backend> backend = test_backend(process);
    VariableStore variables(*backend, program.mesh, program.variables, {.communicator = &communicator});
    Executor executor(program, *backend, variables, {.threads = 1, .communicator = &communicator});
    executor.feed("x", large);
    const std::optional<NonFinite> found = executor.first_non_finite(0);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->operation, "all_reduce");
    EXPECT_EQ(found->infinities, 1);
  });
}

TEST(Executor, CountsFlopsPerPosition) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 8}, {"in", 6}}),
               w = weight(graph, "w", {{"in", 6}, {"out", 4}});
  graph.set_output("y", einsum({x, w}, {{"batch", 8}, {"out", 4}}));
  const std::map<std::string, Values> feeds{{"x", Values(48, 1)}};
  const double whole = 2 * 8 * 6 * 4;
  EXPECT_EQ(run_on_mesh(graph, Layouts::single(), feeds).counters.flops_per_position, whole);
  for (const bool check : {false, true}) {
    MeshRunOptions options;
    options.check_replicas = check;
    const auto flops = [&](const std::string& mesh, const std::string& layout) {
      return run_on_mesh(graph, layouts(mesh, layout), feeds, options).counters.flops_per_position;
    };
    EXPECT_EQ(flops("x:2", "batch:x"), whole / 2);
    EXPECT_EQ(flops("x:2", "in:x"), whole / 2);
    EXPECT_EQ(flops("x:2;y:2", "batch:x;out:y"), whole / 4);
    EXPECT_EQ(flops("x:2;y:2", "batch:x"), whole / 2);  // both halves of y do the same work
  }
}

TEST(Executor, CountsRuns) {
  Graph graph;
  graph.set_output("y", graph.constant(1));
  MeshRunOptions options;
  options.steps = 3;
  EXPECT_EQ(run_on_mesh(graph, Layouts::single(), {}, options).counters.runs, 3);
}

TEST(Executor, FeedsAndFetchesWholeTensorsOfEveryType) {
  Graph graph;
  std::map<std::string, Values> feeds;
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool}) {
    const std::string name(short_name(dtype));
    graph.set_output(name, graph.input(name, {{"a", 4}, {"b", 2}, {"c", 3}}, dtype));
    for (int i = 0; i < 24; ++i) feeds[name].push_back(dtype == DType::kBool ? i % 3 == 0 : i);
  }
  for (const char* layout : {"a:x", "b:x", "a:x;b:y", "a:y;c:z", "b:x;c:z"}) {
    const MeshRun run = run_on_mesh(graph, layouts("x:2;y:2;z:3", layout), feeds);
    EXPECT_EQ(run.outputs, feeds) << layout;
  }
}

TEST(Executor, FeedsScalarsAndIgnoresInputsThatItDoesNotHave) {
  Graph graph;
  graph.set_output("y", negative(graph.input("x", {})));
  graph.set_output("z", negative(graph.input("i", {}, DType::kInt32)));
  const Program program = partition(graph, Layouts::single());
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore variables(*backend, program.mesh, program.variables);
  Executor executor(program, *backend, variables, {});
  executor.feed_scalar("x", 2.5);
  executor.feed_scalar("i", 7);
  executor.feed_scalar("nothing", 1);
  executor.run(0);
  EXPECT_EQ(executor.scalar("y"), -2.5);
  EXPECT_EQ(executor.scalar("z"), -7);
}

TEST(Executor, BigValuesAreCutIntoTheSameTasksEverywhere) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 300}, {"b", 301}});
  graph.set_output("y", reduce_sum(square(x), {{"a", 300}}));
  Values values;
  for (float v : noise(300 * 301)) values.push_back(v);
  MeshRunOptions options;
  options.threads = 1;
  const Values expected =
      run_on_mesh(graph, layouts("x:2", "b:y;a:x"), {{"x", values}}, options).outputs.at("y");
  for (const int threads : {2, 5}) {
    options.threads = threads;
    options.check_replicas = threads == 2;
    EXPECT_EQ(run_on_mesh(graph, layouts("x:2", "b:y;a:x"), {{"x", values}}, options).outputs.at("y"),
              expected);
  }
}

}  // namespace
}  // namespace mtf::testing
