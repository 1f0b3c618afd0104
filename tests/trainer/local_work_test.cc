// Tests which operands the cost model takes for cached, and which instructions of several positions for one.
#include "trainer/costs/local_work.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/unary.h"
#include "engine/runtime/collective_of.h"
#include "engine/spmd/partition/partition.h"

namespace mtf {
namespace {

CostModel model_with(int64_t cache, const Mesh& mesh = {}, int processes = 1) {
  HardwareOptions hardware;
  hardware.device.cache.size = {cache};
  Placement placement;
  placement.mesh = HostedMesh(mesh, {processes, 0});
  return {std::move(hardware), std::move(placement)};
}

/// The work of the instructions of a program, by the name of the operation.
std::multimap<std::string, ProcessWork> works_of(const Program& program, const CostModel& model) {
  LocalWork local(program, model);
  std::multimap<std::string, ProcessWork> works;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.is_collective()) continue;
    const int64_t copies = model.count(computed_over(program, instruction, false));
    works.emplace(name_of(instruction), local.of(instruction, copies));
  }
  return works;
}

TEST(LocalWork, OperandsLeaveTheCacheWhenAsManyBytesWereUsedSince) {
  Graph graph;
  const Dimension n{"n", 256};  // 1,024 bytes
  const Tensor x = graph.input("x", {n}), y = graph.input("y", {n});
  graph.set_output("a", relu(multiply(sin(add(x, y)), x)));
  const Program program = partition(graph, Layouts::single());
  const auto cold = [&](int64_t cache) {
    std::map<std::string, double> bytes;
    for (const auto& [name, work] : works_of(program, model_with(cache))) bytes[name] = work.cold;
    return bytes;
  };
  for (const auto& [name, bytes] : cold(64 << 10)) EXPECT_EQ(bytes, 0) << name;  // all of it stays
  for (const auto& [name, work] : works_of(program, model_with(0)))
    EXPECT_GE(work.cold, work.work.bytes) << name;
  // Where somewhat more is used than there is room for, a part of it leaves.
  const double all = cold(0).at("multiply"), part = cold(2900).at("multiply");
  EXPECT_GT(part, 0);
  EXPECT_LT(part, all);
  // Room for two values: what an instruction has made is there for the next one, and x has left.
  const std::map<std::string, double> some = cold(2 << 10);
  EXPECT_LT(some.at("sin"), 2048);
  EXPECT_GE(some.at("multiply"), 1024);
}

/// The gradient of a layer whose batch of 64 is split over the positions.
Program split_layer(const Layouts& layouts) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 64}, {"in", 16}}),
               w = graph.input("w", {{"in", 16}, {"out", 32}});
  const Tensor loss = reduce_sum(relu(einsum({x, w}, {{"batch", 64}, {"out", 32}})), Shape{});
  graph.set_output("dw", multiply(gradients({loss}, {w})[0], w));
  return partition(graph, layouts);
}

TEST(LocalWork, PositionsThatShareAMatrixMultiplyTogether) {
  const Layouts layouts = Layouts::make(Mesh(Shape::parse("all:4")), LayoutRules::parse("batch:all"));
  const Program program = split_layer(layouts);
  const CostModel model = model_with(0, layouts.mesh);
  const auto works = works_of(program, model);
  ASSERT_EQ(works.count("einsum"), 2u);
  const auto [first, last] = works.equal_range("einsum");
  const ProcessWork forward = first->second, gradient = std::prev(last)->second;
  EXPECT_EQ(forward.calls, 1);
  EXPECT_EQ(forward.work.product.rows, 64);
  EXPECT_EQ(forward.work.flops, 2.0 * 64 * 16 * 32);
  EXPECT_EQ(forward.work.bytes, 4.0 * (16 * 32 + 64 * 16 + 64 * 32));
  // The gradient is the sum of four products of a depth of 16, and its all-reduce costs nothing.
  EXPECT_EQ(gradient.calls, 1);
  EXPECT_EQ(gradient.work.product.summed, 16);
  EXPECT_EQ(gradient.work.product.terms, 4);
  EXPECT_EQ(gradient.work.flops, 2.0 * 64 * 16 * 32);
  LocalWork local(program, model);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.is_collective()) {
      EXPECT_TRUE(local.is_made_with_terms(instruction));
    }
  }
}

TEST(LocalWork, ProcessesOfOnePositionAndGpusMultiplyAlone) {
  const Layouts layouts = Layouts::make(Mesh(Shape::parse("all:4")), LayoutRules::parse("batch:all"));
  const Program program = split_layer(layouts);
  for (const auto& [name, work] : works_of(program, model_with(0, layouts.mesh, 4))) {
    EXPECT_EQ(work.calls, 1) << name;
    if (name == "einsum") {
      EXPECT_EQ(work.work.flops, 2.0 * 16 * 16 * 32);
    }
  }
  HardwareOptions gpu;
  gpu.device.kind = DeviceKind::kCuda;
  Placement placement;
  placement.mesh = HostedMesh(layouts.mesh);
  for (const auto& [name, work] : works_of(program, CostModel(gpu, placement))) {
    if (name == "einsum") {
      EXPECT_EQ(work.calls, 4);
    }
  }
}

}  // namespace
}  // namespace mtf
