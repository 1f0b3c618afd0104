// Tests the cost model on hardware whose times a reader can compute: 1000 FLOP/s, 100 bytes/s, ...
#include "trainer/costs/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/graph/gradients.h"
#include "engine/ops/attention.h"
#include "engine/ops/convolution.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/spmd/partition/partition.h"
#include "trainer/costs/prediction.h"

namespace mtf {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

HardwareOptions machine(DeviceKind kind = DeviceKind::kCpu) {
  HardwareOptions hardware;
  hardware.device.kind = kind;
  hardware.device.flops.float32 = 1000;
  hardware.device.bandwidth = 100;
  hardware.links = {};
  return hardware;
}

LinkOptions link(std::optional<int64_t> processes, double bandwidth, double latency) {
  LinkOptions result;
  result.processes = processes;
  result.bandwidth = bandwidth;
  result.latency = latency;
  return result;
}

Placement alone(int threads = 1) {
  Placement placement;
  placement.threads = threads;
  return placement;
}

Work work(WorkKind kind, double flops, double bytes) {
  Work result;
  result.kind = kind;
  result.flops = flops;
  result.bytes = bytes;
  return result;
}

/// The time of work whose operands are not in the cache.
double seconds(const CostModel& model, const Work& work) { return model.seconds(work, work.bytes); }

/// Products with so many FLOPs each, which a process executes `calls` times.
std::vector<ProcessWork> products(const std::vector<double>& flops, int64_t calls) {
  std::vector<ProcessWork> works;
  for (const double each : flops) works.push_back({work(WorkKind::kProduct, each, 0), 0, calls});
  return works;
}

TEST(CostModel, AnOperationTakesTheLongerOneOfItsFlopsAndItsBytes) {
  HardwareOptions hardware = machine();
  hardware.device.overhead = 0.25;
  const CostModel model(hardware, alone());
  EXPECT_DOUBLE_EQ(seconds(model, work(WorkKind::kProduct, 3000, 100)), 3.25);
  EXPECT_DOUBLE_EQ(seconds(model, work(WorkKind::kProduct, 500, 100)), 1.25);
  EXPECT_DOUBLE_EQ(seconds(model, work(WorkKind::kNorm, 0, 200)), 2.25);
}

TEST(CostModel, BytesInTheMemoryOfTheHostCrossTheLink) {
  HardwareOptions hardware = machine(DeviceKind::kCuda);
  hardware.device.host_link = 10;
  const CostModel model(hardware, alone());
  Work update = work(WorkKind::kUpdate, 0, 200);
  EXPECT_DOUBLE_EQ(seconds(model, update), 2);
  update.host_bytes = 50;
  EXPECT_DOUBLE_EQ(seconds(model, update), 5);
  EXPECT_DOUBLE_EQ(model.least_seconds(update), 5);
}

TEST(CostModel, TransfersToTheHostRunWhileTheDeviceComputes) {
  HardwareOptions hardware = machine(DeviceKind::kCuda);
  hardware.device.host_link = 64;
  const CostModel model(hardware, alone());
  Program program;
  const auto add = [&](bool on_host) {
    Value value{.name = {}, .shape = {{"a", 32}}, .layout = Layout::replicated(1)};
    value.on_host = on_host;
    return program.add_value(std::move(value));
  };
  const ValueId kept = add(false), on_host = add(true), other = add(false), copy = add(false);
  program.instructions.push_back({action::Transfer{true}, {kept}, {on_host}});
  program.instructions.push_back({action::Copy{}, {other}, {copy}});
  program.instructions.push_back({action::Done{{kept}}, {on_host}});
  EXPECT_DOUBLE_EQ(model.transfer(program, program.instructions[0]), 2);
  const StepPrediction prediction = predict_step(schedule_of(program, model));
  EXPECT_DOUBLE_EQ(prediction.computing, 2.56);
  EXPECT_DOUBLE_EQ(prediction.seconds, 2.56);
}

TEST(CostModel, RatesDependOnTypeAndShape) {
  HardwareOptions hardware = machine();
  hardware.device.flops.bfloat16 = 4000;
  hardware.device.products = {.share = 0.5, .rows = 10, .columns = 0, .summed = 5};
  const CostModel model(hardware, alone());
  Work product = work(WorkKind::kProduct, 2 * 10 * 10 * 10, 0);
  product.product = {1, 10, 10, 10};
  EXPECT_DOUBLE_EQ(seconds(model, product), 2 * 20 * 10 * 15 / 500.0);
  product.factors = FactorType::kBFloat16;
  EXPECT_DOUBLE_EQ(seconds(model, product), 2 * 20 * 10 * 15 / 2000.0);
  product.factors = FactorType::kStoredBFloat16;  // which a processor multiplies as float32
  EXPECT_DOUBLE_EQ(seconds(model, product), 2 * 20 * 10 * 15 / 500.0);
  hardware.device.kind = DeviceKind::kCuda;
  EXPECT_DOUBLE_EQ(CostModel(hardware, alone()).peak_flops(product.factors), 4000);
  product.factors = FactorType::kTf32;  // not given
  EXPECT_DOUBLE_EQ(seconds(model, product), 2 * 20 * 10 * 15 / 500.0);
}

TEST(CostModel, ConvolutionsHaveRatesOfTheirOwnOnProcessors) {
  HardwareOptions hardware = machine();
  Work direct = work(WorkKind::kProduct, 2 * 10 * 10 * 10, 0);
  direct.product_kind = ProductKind::kConvolution;
  direct.product = {1, 10, 10, 10};
  Work depthwise = direct, tiles = direct;
  depthwise.product_kind = ProductKind::kDepthwise;
  tiles.winograd = ProductExtents{16, 2, 10, 5};
  const auto times = [&] {
    const CostModel model(hardware, alone());
    return std::vector<double>{seconds(model, direct), seconds(model, depthwise), seconds(model, tiles)};
  };
  EXPECT_THAT(times(), ElementsAre(2, 2, 2));  // as products
  hardware.device.convolutions.direct = ProductRates{.share = 0.5};
  EXPECT_THAT(times(), ElementsAre(4, 2, 4));
  EXPECT_DOUBLE_EQ(CostModel(hardware, alone()).least_seconds(tiles), 4);
  hardware.device.convolutions = {
      .direct = ProductRates{.share = 0.5, .rows = 10},
      .winograd = ProductRates{.share = 0.8, .columns = 10, .summed = 5},
      .depthwise = 0.25,
  };
  EXPECT_THAT(times(), ElementsAre(8, 8, 16));
  EXPECT_DOUBLE_EQ(CostModel(hardware, alone()).least_seconds(tiles), 4);
  hardware.device.kind = DeviceKind::kCuda;
  EXPECT_THAT(times(), ElementsAre(2, 2, 2));
}

TEST(CostModel, AttentionHasSharesOfItsOwn) {
  HardwareOptions hardware = machine();
  hardware.device.attention = {.forward = 0.5, .backward = 0.25, .softmax = 0};
  const CostModel model(hardware, alone());
  Work attention = work(WorkKind::kAttention, 1000, 0);
  attention.computed = 0.75;
  EXPECT_DOUBLE_EQ(seconds(model, attention), 1.5);
  attention.is_gradient = true;
  EXPECT_DOUBLE_EQ(seconds(model, attention), 3);
  attention.logits = 20;
  hardware.device.attention.softmax = 50;
  EXPECT_DOUBLE_EQ(seconds(CostModel(hardware, alone()), attention), 6);
  attention.queries = 5;
  hardware.device.attention.query = 100;
  EXPECT_DOUBLE_EQ(seconds(CostModel(hardware, alone()), attention), 8);
}

TEST(CostModel, BytesInTheCacheHaveARateOfTheirOwn) {
  HardwareOptions hardware = machine();
  hardware.device.cache = {.size = {400}, .bandwidth = 1000};
  hardware.device.rates.updates = MemoryRate{.cache = 200, .memory = 50};
  const CostModel model(hardware, alone());
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kElementwise, 0, 400), 0), 0.4);
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kElementwise, 0, 400), 100), 0.3 + 1);
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kUpdate, 0, 400), 0), 2);
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kUpdate, 0, 500), 500), 10);
  // Four cores share the memory, of which each could have half.
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kUpdate, 0, 500), 500, 4), 20);
}

TEST(CostModel, AShareOfTheBytesInMemoryTakesTimeBesideAProduct) {
  HardwareOptions hardware = machine();
  hardware.device.products.exposed = 0.5;
  const CostModel model(hardware, alone());
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kProduct, 3000, 100), 100), 3.5);
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kProduct, 3000, 100), 0), 3);
  EXPECT_DOUBLE_EQ(model.seconds(work(WorkKind::kProduct, 1000, 400), 400),
                   4);  // bytes take longer in any case
}

TEST(CostModel, CoresAreSlowerTogether) {
  HardwareOptions hardware = machine();
  hardware.device.cores = 3;
  hardware.device.together = 0.5;
  const CostModel model(hardware, alone(3));
  const Work product = work(WorkKind::kProduct, 3000, 0);
  EXPECT_DOUBLE_EQ(model.seconds(product, 0), 3);
  EXPECT_DOUBLE_EQ(model.seconds(product, 0, 2), 4);
  EXPECT_DOUBLE_EQ(model.seconds(product, 0, 3), 6);
  EXPECT_DOUBLE_EQ(model.seconds(product, 0, 8), 6);  // more threads than cores
  const Work bytes = work(WorkKind::kUpdate, 0, 500);
  EXPECT_DOUBLE_EQ(model.seconds(bytes, 0, 3), 2 * model.seconds(bytes, 0));
}

TEST(CostModel, ThreadsWakeLateInEachStep) {
  HardwareOptions hardware = machine();
  hardware.device.step = 1;
  hardware.device.wake = 0.5;
  EXPECT_DOUBLE_EQ(CostModel(hardware, alone()).step_seconds(), 1);
  EXPECT_DOUBLE_EQ(CostModel(hardware, alone(2)).step_seconds(), 1.5);
}

TEST(CostModel, PositionsTakeTurnsOnThreads) {
  HardwareOptions hardware = machine();
  hardware.device.cores = 2;
  hardware.device.barrier = 0.5;
  std::vector<double> times;
  const CostModel model(hardware, alone(2));
  model.segment(products({1000, 2000}, 4), times);  // one of the threads is 3 % later than both on average
  EXPECT_THAT(times, ElementsAre(DoubleEq(2.56), DoubleEq(4.12)));
  model.segment(products({1000, 2000}, 3), times);  // one of the threads waits
  EXPECT_THAT(times, ElementsAre(DoubleEq(2.56), DoubleEq(4.12)));
  // One position: threads share what is large enough to be cut, and here it is not.
  model.segment(products({1000, 2000}, 1), times);
  EXPECT_THAT(times, ElementsAre(DoubleEq(1), DoubleEq(2)));
  // Four tasks: one thread does two of them, and begins half a task late.
  hardware.device.flops.float32 = 8 << 20;
  CostModel(hardware, alone(2)).segment(products({4 * double{8 << 20}}, 1), times);
  EXPECT_THAT(times, ElementsAre(DoubleEq(3)));
}

TEST(CostModel, ThreadsOfSeveralProcessesShareTheCores) {
  HardwareOptions hardware = machine();
  hardware.device.cores = 2;
  Placement placement = alone();
  placement.processes_of_machine = 4;
  std::vector<double> times;
  CostModel(hardware, placement).segment(products({1000}, 1), times);
  EXPECT_THAT(times, ElementsAre(DoubleEq(2)));
}

TEST(CostModel, OnlyThreadsThatTakePartInAnOperationShareTheCores) {
  HardwareOptions hardware = machine();
  hardware.device.flops.float32 = kFlopsPerTask;
  const auto time = [&](double tasks, int threads) {
    std::vector<double> times;
    CostModel(hardware, alone(threads)).segment(products({tasks * kFlopsPerTask}, 1), times);
    return times.front();
  };
  for (const int threads : {1, 2, 8}) EXPECT_DOUBLE_EQ(time(1, threads), 1) << threads;
  EXPECT_DOUBLE_EQ(time(2, 8), 2);  // two of eight threads take turns on the core
  EXPECT_DOUBLE_EQ(time(9, 8), 9);
}

TEST(CostModel, OnlyThreadsThatTakePartInAnOperationShareTheMemory) {
  HardwareOptions hardware = machine();
  hardware.device.flops.float32 = kFlopsPerTask;
  hardware.device.cores = 64;
  hardware.device.bandwidth = 2;
  const auto time = [&](int threads) {
    std::vector<double> times;
    std::vector<ProcessWork> works = products({2 * kFlopsPerTask}, 1);
    works.front().work.bytes = works.front().cold = 100;
    CostModel(hardware, alone(threads)).segment(works, times);
    return times.front();
  };
  EXPECT_DOUBLE_EQ(time(8), time(64));
}

TEST(CostModel, ProcessesThatTakeTurnsWaitForTheLastOne) {
  HardwareOptions hardware = machine();
  hardware.device.cores = 2;
  Placement placement = alone();
  placement.processes_of_machine = 2;
  const auto turn = [&](double computing, double messages) {
    return CostModel(hardware, placement).turn_seconds(computing, messages);
  };
  EXPECT_DOUBLE_EQ(turn(10e-3, 0), 0);
  EXPECT_DOUBLE_EQ(turn(10e-3, 5e-3), 1e-3);  // threads that send want the cores of those that compute
  placement.processes_of_machine = 4;
  EXPECT_DOUBLE_EQ(turn(10e-3, 5e-3), 3e-3);
  EXPECT_DOUBLE_EQ(turn(1, 0), 4e-3);
}

TEST(CostModel, PositionsOfAGpuTakeTurns) {
  std::vector<double> times;
  CostModel(machine(DeviceKind::kCuda), alone()).segment(products({1000}, 4), times);
  EXPECT_THAT(times, ElementsAre(DoubleEq(4)));
}

/// The times of the collectives of a sum over `batch` with 400 bytes of results, [batch=8, n=100], in which `batch` is split
/// over `axes` of the mesh.
std::vector<CollectiveTime> times_of_sum(const HardwareOptions& hardware, const std::string& mesh,
                                         const std::string& axes, int processes, int of_machine = 1) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 64}, {"n", 100}});
  graph.set_output("y", relu(reduce_sum(x, Shape{{"n", 100}})));
  const Layouts layouts = Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules::parse("batch:" + axes));
  const Program program = partition(graph, layouts);
  Placement placement = alone();
  placement.mesh = HostedMesh(layouts.mesh, {processes, 0});
  placement.processes_of_machine = of_machine;
  const CostModel model(hardware, placement);
  std::vector<CollectiveTime> times;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.is_collective()) times.push_back(model.collective(program, instruction));
  }
  return times;
}

TEST(CostModel, ASumWithinAProcessReadsAllSlicesAndWritesOneResult) {
  const std::vector<CollectiveTime> times = times_of_sum(machine(), "all:4", "all", 1);
  ASSERT_EQ(times.size(), 1u);
  EXPECT_DOUBLE_EQ(times[0].network, 0);
  EXPECT_DOUBLE_EQ(times[0].processor, (4 + 1) * 400 / 100.0);
}

TEST(CostModel, ProcessesSendTheirSharesDirectly) {
  HardwareOptions hardware = machine();
  hardware.links = {link({}, 200, 0.125)};
  hardware.device.cores = 2;
  // Reduce-scatter and all-gather: each sends 3/4 of 400 bytes twice.
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:4", "all", 4)[0].network, 2 * 0.125 + 2 * 300 / 200.0);
  // Two processes of two positions each add their own slices first.
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:4", "all", 2)[0].network, 2 * 0.125 + 2 * 200 / 200.0);
  // Two of three others are in another machine, behind a slower link.
  hardware.links = {link(2, 2000, 0.125), link({}, 200, 0.25)};
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:4", "all", 4)[0].network, 2 * 0.25 + 2 * 300 * 2 / 3.0 / 200);
}

TEST(CostModel, MessagesWithinAMachineNeedItsCores) {
  HardwareOptions hardware = machine();
  hardware.links = {link({}, 200, 0.125)};
  hardware.device.cores = 2;
  hardware.links[0].inside = true;
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:4", "all", 4, 2)[0].network, 2 * 0.125 + 2 * 300 / 200.0);
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:4", "all", 4, 4)[0].network,
                   2 * (2 * 0.125 + 2 * 300 / 200.0));
}

TEST(CostModel, MessagesWithinAMachineThatStayInItsCachesAreFaster) {
  HardwareOptions hardware = machine();
  hardware.links = {link({}, 200, 0)};
  hardware.links[0].cached = 400;
  hardware.links[0].inside = true;
  hardware.device.cores = 4;
  const auto seconds = [&](int64_t cache, int local) {
    hardware.device.cache.size.value = cache;
    return times_of_sum(hardware, "all:4", "all", 4, local)[0].network;
  };
  EXPECT_DOUBLE_EQ(seconds(5 * 400, 4), 2 * 300 / 400.0);
  EXPECT_DOUBLE_EQ(seconds(5 * 400 - 1, 4), 2 * 300 / 200.0);
  // Processes that take turns on a core share its cache.
  hardware.device.cores = 2;
  EXPECT_DOUBLE_EQ(seconds(5 * 400, 4), 2 * (2 * 300 / 200.0));
  hardware.links[0].inside = false;
  EXPECT_DOUBLE_EQ(seconds(10 * 400, 4), 2 * 300 / 200.0);
}

// A step ends when the process whose turn is last has sent what the others wait for.
TEST(CostModel, ProcessesThatTakeTurnsWaitOnceInAStep) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 4}, {"n", 100}});
  for (const char* name : {"y", "z"})
    graph.set_output(name, relu(reduce_sum(name[0] == 'y' ? x : relu(x), Shape{{"n", 100}})));
  const Mesh mesh(Shape::parse("all:4"));
  const Program program = partition(graph, Layouts::make(mesh, LayoutRules::parse("batch:all")));
  HardwareOptions hardware = machine();
  hardware.links = {link({}, 200, 0)};
  const auto seconds = [&](int64_t cores) {
    hardware.device.cores = cores;
    Placement placement = alone();
    placement.mesh = HostedMesh(mesh, {4, 0});
    placement.processes_of_machine = 4;
    std::vector<double> times;
    for (const ScheduleItem& item : schedule_of(program, CostModel(hardware, placement))) {
      if (const auto* start = std::get_if<ScheduledStart>(&item)) times.push_back(start->seconds);
    }
    return times;
  };
  const std::vector<double> alone = seconds(4), in_turn = seconds(2);
  ASSERT_FALSE(alone.empty());
  ASSERT_EQ(in_turn.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_NEAR(in_turn[i], alone[i] + (i + 1 == alone.size() ? 4e-3 : 0), 1e-9) << i;
}

TEST(CostModel, SocketsKeepACoreBusyWhereAllCoresCompute) {
  HardwareOptions hardware = machine();
  hardware.links = {link({}, 200, 0)};
  hardware.links[0].core = 0.5;
  hardware.device.cores = 2;
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:2", "all", 2, 2)[0].processor, 0.5 * 2 * 200 / 200);
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:2", "all", 2, 1)[0].processor, 0);  // a core is free
}

TEST(CostModel, LinksOfGpusDependOnTheStrideOfAMeshDimension) {
  HardwareOptions hardware = machine(DeviceKind::kCuda);
  hardware.links = {link(4, 1000, 0), link({}, 100, 0)};
  // `inner` lies within a machine of four GPUs, `outer` across machines.
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "outer:2;inner:4", "inner", 8)[0].network, 2 * 0.75 * 400 / 1000);
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "outer:2;inner:4", "outer", 8)[0].network, 2 * 0.5 * 400 / 100);
  // One that straddles: each GPU carries a quarter to the other machine, which takes as long as what goes round within it
  // takes more than that; the slower one counts.
  EXPECT_DOUBLE_EQ(times_of_sum(hardware, "all:8", "all", 8)[0].network, 2 * 0.5 * 100 / 100);
}

TEST(CostModel, SmallSumsOfGpusGoAlongTrees) {
  HardwareOptions hardware = machine(DeviceKind::kCuda);
  hardware.links = {link({}, 1e9, 1)};
  // A ring of eight has seven steps in each direction, a tree three.
  EXPECT_NEAR(times_of_sum(hardware, "all:8", "all", 8)[0].network, 6, 1e-5);
}

TEST(CostModel, CausalMasksHideWork) {
  Graph graph;
  const Dimension b{"batch", 2}, l{"length", 256}, m{"memory_length", 256}, d{"d_kv", 16};
  const Tensor q = graph.input("q", {b, l, d}), k = graph.input("k", {b, m, d}),
               v = graph.input("v", {b, m, d});
  graph.set_output("y", attention({.q = q, .k = k, .v = v}, {.causal = true}));
  const Program program = partition(graph, Layouts::single());
  for (const Instruction& instruction : program.instructions) {
    if (name_of(instruction) != "attention") continue;
    const Work work = *WorkFinder(program).of(instruction);
    EXPECT_DOUBLE_EQ(work.flops, 2.0 * 2 * 256 * 256 * 32);
    EXPECT_DOUBLE_EQ(work.computed, (1 + 64.0 / 256) / 2);
    EXPECT_DOUBLE_EQ(work.logits, 2 * 256 * 256);
    EXPECT_DOUBLE_EQ(work.queries, 2 * 256);
  }
}

/// The kinds and extents of a convolution of [batch=4, rows=9, cols=10, in] and of its gradients, by operation.
std::map<std::string, Work> works_of_convolution(const Dimension& in, const Dimension& out, int64_t stride,
                                                 const std::string& mesh = "",
                                                 const std::string& layout = "") {
  Graph graph;
  const Dimension batch{"batch", 4}, rows{"rows", 9}, cols{"cols", 10};
  const Tensor x = graph.input("x", {batch, rows, cols, in}),
               filter = graph.input("filter", {{"k0", 3}, {"k1", 3}, in, out});
  const Tensor y = convolution(x, filter,
                               {window_over(rows, {.filter = "k0", .size = 3, .stride = stride}),
                                window_over(cols, {.filter = "k1", .size = 3, .stride = stride})});
  const Tensors gradient = gradients({y}, {x, filter});
  graph.set_output("y", y);
  graph.set_output("dx", gradient[0]);
  graph.set_output("df", gradient[1]);
  const Program program =
      partition(graph, mesh.empty() ? Layouts::single()
                                    : Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules::parse(layout)));
  std::map<std::string, Work> works;
  for (const Instruction& instruction : program.instructions)
    works[std::string(name_of(instruction))] = *WorkFinder(program).of(instruction);
  return works;
}

std::vector<double> extents(const ProductExtents& e) { return {e.batch, e.rows, e.columns, e.summed}; }

TEST(CostModel, ConvolutionsAreProductsOfPatches) {
  for (const auto& [name, expected] : std::map<std::string, std::vector<double>>{
           {"convolution", {1, 4 * 5 * 5, 32, 9 * 3}},
           {"convolution_filter_gradient", {1, 9 * 3, 32, 4 * 5 * 5}}}) {
    const Work work = works_of_convolution({"in", 3}, {"out", 32}, 2).at(name);
    EXPECT_EQ(work.product_kind, ProductKind::kConvolution);
    EXPECT_FALSE(work.winograd);
    EXPECT_EQ(extents(work.product), expected) << name;
  }
}

TEST(CostModel, SmallWindowsAreProductsOfTiles) {
  const auto works = works_of_convolution({"in", 16}, {"out", 32}, 1);
  const auto split = works_of_convolution({"in", 16}, {"out", 32}, 1, "a:2", "batch:a");
  for (const char* name : {"convolution", "transposed_convolution", "convolution_filter_gradient"}) {
    ASSERT_TRUE(works.at(name).winograd) << name;
    EXPECT_EQ(extents(*works.at(name).winograd), (std::vector<double>{16, 4 * 5 * 5, 32, 16})) << name;
    EXPECT_EQ(extents(*split.at(name).winograd), (std::vector<double>{16, 2 * 5 * 5, 32, 16})) << name;
    EXPECT_DOUBLE_EQ(works.at(name).flops, 2.0 * 4 * 9 * 10 * 9 * 16 * 32);
  }
  EXPECT_FALSE(works_of_convolution({"in", 8}, {"out", 32}, 1).at("convolution").winograd);
}

TEST(CostModel, ContractionsHaveTheExtentsOfTheirSlices) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 64}, {"heads", 4}, {"in", 16}}),
               w = graph.input("w", {{"heads", 4}, {"in", 16}, {"out", 32}});
  graph.set_output("y", einsum({x, w}, {{"batch", 64}, {"heads", 4}, {"out", 32}}));
  const Layouts layouts = Layouts::make(Mesh(Shape::parse("a:4;b:2")), LayoutRules::parse("batch:a;out:b"));
  const Program program = partition(graph, layouts);
  const Work work = *WorkFinder(program).of(program.instructions[0]);
  EXPECT_THAT(
      (std::vector<double>{work.product.batch, work.product.rows, work.product.columns, work.product.summed}),
      ElementsAre(4, 16, 16, 16));
  EXPECT_DOUBLE_EQ(work.flops, 2.0 * 4 * 16 * 16 * 16);
}

}  // namespace
}  // namespace mtf
