// Tests collectives between processes (threads that share a network in memory) against those within one
// process: the bits must be the same however a mesh is spread over processes.
#include "engine/comm/process/process_communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "engine/comm/remote_groups.h"
#include "tests/support/budget.h"
#include "tests/support/failure.h"
#include "tests/support/memory_transport.h"
#include "tests/support/mesh_collective.h"

namespace mtf {
namespace {

using Kind = Collective::Kind;
using testing::CollectiveSide;
using testing::make_part;
using testing::MeshCollective;
using testing::predicted_bytes;
using testing::random_collective;

Backend& cpu() {
  static const std::unique_ptr<Backend> backend = make_cpu_backend();
  return *backend;
}

/// Runs `action` in a thread for each process; rethrows the first exception.
void run_processes(int count, const std::function<void(Communicator&)>& action) {
  MemoryNetwork network(count);
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const std::unique_ptr<Transport> transport = network.transport(rank);
        FlightRecord record(100);
        CommunicationThread thread(record);
        ProcessCommunicator communicator(*transport, thread);
        action(communicator);
      } catch (...) {
        errors[rank] = std::current_exception();
        network.lose(rank);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Runs all collectives at the same time, twice. Returns the number of bytes that all processes sent for
/// each.
std::vector<double> run_on(int processes, const std::vector<MeshCollective>& collectives) {
  std::mutex mutex;
  std::vector<double> bytes(collectives.size());
  run_processes(processes, [&](Communicator& communicator) {
    std::vector<std::unique_ptr<CollectiveSide>> sides;
    for (const MeshCollective& c : collectives)
      sides.push_back(std::make_unique<CollectiveSide>(c, communicator, cpu()));
    for (int round = 0; round < 2; ++round) {
      for (const auto& side : sides) side->start(round);
      for (const auto& side : sides) side->wait_and_check(round);
    }
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < sides.size(); ++i) {
      EXPECT_EQ(sides[i]->remote().bytes_sent(), sides[i]->planned_bytes()) << collectives[i];
      bytes[i] += sides[i]->remote().bytes_sent();
    }
  });
  return bytes;
}

struct Spread {
  const char* mesh;
  int processes;
};

class Spreads : public ::testing::TestWithParam<Spread> {};

TEST_P(Spreads, RandomCollectivesInFlightTogetherHaveTheBitsOfOneProcess) {
  const auto [mesh, processes] = GetParam();
  std::mt19937 random(7);
  for (int repeat = 0; repeat < testing::tries(3); ++repeat) {
    std::vector<MeshCollective> collectives;
    for (int i = 0; i < 12; ++i) collectives.push_back(random_collective(mesh, random));
    const std::vector<double> bytes = run_on(processes, collectives);
    if (processes != collectives[0].mesh.size()) continue;
    for (size_t i = 0; i < collectives.size(); ++i) {
      EXPECT_NEAR(bytes[i], predicted_bytes(collectives[i]), 1e-6 * bytes[i]) << collectives[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Spreads,
                         ::testing::Values(Spread{"a:1", 1}, Spread{"a:2", 1}, Spread{"a:2", 2},
                                           Spread{"a:3", 3}, Spread{"a:4", 2}, Spread{"a:5", 5},
                                           Spread{"a:6", 2}, Spread{"a:8", 2}, Spread{"a:8", 8},
                                           Spread{"a:2;b:2", 2}, Spread{"a:2;b:2", 4}, Spread{"a:3;b:2", 2},
                                           Spread{"a:3;b:2", 3}, Spread{"a:2;b:4", 4}, Spread{"a:2;b:6", 4},
                                           Spread{"a:2;b:3;c:2", 3}, Spread{"a:2;b:2;c:3", 4}),
                         [](const auto& info) {
                           std::string name =
                               std::to_string(info.param.processes) + "_processes_" + info.param.mesh;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

TEST(ProcessCommunicator, LongBucketsInSeveralMessages) {
  std::mt19937 random(3);
  std::vector<std::pair<DType, Spread>> all;
  for (const Spread& spread : {Spread{"a:3;b:2", 2}, Spread{"a:3", 3}, Spread{"a:2", 2}, Spread{"a:6", 2}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) all.emplace_back(dtype, spread);
  }
  for (const auto& [dtype, spread] : std::span(all).first(std::min<size_t>(all.size(), testing::tries(8)))) {
    std::vector<MeshCollective> collectives;
    for (Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll}) {
      MeshCollective c{Mesh(Shape::parse(spread.mesh)), 1, 1, false, {}, static_cast<uint32_t>(random())};
      c.axes = c.varies = c.mesh.all_axes();
      for (int64_t size : {100003, 50, 17, 40000, 300001}) {
        const int64_t n = kind == Kind::kAllReduce || kind == Kind::kAllGather ? 1 : c.mesh.size();
        c.parts.push_back(make_part(c, kind, dtype, Reduction::kSum, {n * (size / n / 3), 3},
                                    size % 2 == 1 && n == 1, 0, 0));
        if (kind == Kind::kAllToAll) c.parts.back().concat_dimension = 1;
        if (n > 1) c.parts.back().dimension = 0;
      }
      collectives.push_back(std::move(c));
    }
    run_on(spread.processes, collectives);
  }
}

TEST(ProcessCommunicator, APreaddedHalfTravelsOnce) {
  // Eight positions in two processes: each process sends half of the elements, summed over its four members,
  // and then the result of its own half.
  MeshCollective c{Mesh(Shape::parse("a:8")), 1, 1, false, {}, 1};
  c.parts = {make_part(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {1000}, 0, 0, 0)};
  EXPECT_EQ(run_on(2, {c})[0], 2 * 2 * 500 * 4);
  c.parts[0].dtype = DType::kBFloat16;  // sums that are sent are float32
  EXPECT_EQ(run_on(2, {c})[0], 2 * 500 * (4 + 2));
}

TEST(ProcessCommunicator, GatheredBytesTravelOnceToAProcessThatKeepsSeveralCopies) {
  MeshCollective c{Mesh(Shape::parse("a:4")), 1, 1, true, {}, 1};
  c.parts = {make_part(c, Kind::kAllGather, DType::kInt32, Reduction::kSum, {10}, 0, 0, 0)};
  EXPECT_EQ(run_on(2, {c})[0], 2 * 2 * 10 * 4);
}

TEST(ProcessCommunicator, CrossesProcessesSaysTheSameInAll) {
  const Mesh mesh(Shape::parse("a:3;b:2"));
  RemoteGroupRequest over_a{Kind::kAllReduce, 1, 2, 3}, over_b{Kind::kAllReduce, 2, 1, 3};
  RemoteGroupRequest held_by_all{Kind::kAllReduce, 2, 0, 2};
  for (int process = 0; process < 3; ++process) {
    EXPECT_TRUE(crosses_processes(HostedMesh(mesh, {3, process}), over_a));
    EXPECT_FALSE(crosses_processes(HostedMesh(mesh, {3, process}), over_b));
  }
  for (int process = 0; process < 2; ++process) {
    EXPECT_TRUE(crosses_processes(HostedMesh(mesh, {2, process}), over_b)) << "row 1 is in both";
    EXPECT_FALSE(crosses_processes(HostedMesh(mesh, {2, process}), held_by_all));
  }
}

TEST(ProcessCommunicator, GathersBytesOfTheHostBetweenOtherCollectives) {
  MeshCollective c{Mesh(Shape::parse("a:3")), 1, 1, false, {}, 1};
  c.parts = {make_part(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {1000}, 0, 0, 0)};
  run_processes(3, [&](Communicator& communicator) {
    CollectiveSide side(c, communicator, cpu());
    for (int round = 0; round < 3; ++round) {
      side.start(round);
      // The lengths differ: 0, 100000 and 200000 bytes.
      const auto pending = communicator.start_gather(
          std::string(communicator.process() * 100000, static_cast<char>('a' + round)), "words");
      { const auto dropped = communicator.start_gather("x", "not waited for"); }
      const std::vector<std::string> all = pending->wait();
      side.wait_and_check(round);
      ASSERT_EQ(all.size(), 3u);
      for (size_t p = 0; p < 3; ++p)
        EXPECT_EQ(all[p], std::string(p * 100000, static_cast<char>('a' + round)));
    }
    EXPECT_EQ(broadcast(communicator, communicator.process() == 0 ? "of the first" : "ignored", "text"),
              "of the first");
    EXPECT_EQ(all_gather(communicator, std::string(communicator.process(), 'z'), "z")[2], "zz");
  });
}

TEST(ProcessCommunicator, AProcessWithoutPartsTakesPartInTheNumbering) {
  MeshCollective c{Mesh(Shape::parse("a:2")), 1, 1, false, {}, 1};
  c.parts = {make_part(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {10}, 0, 0, 0)};
  run_processes(2, [&](Communicator& communicator) {
    const auto empty = communicator.prepare(std::vector<RemotePart>{}, "nothing here");
    CollectiveSide side(c, communicator, cpu());
    empty->start();
    side.start(0);
    empty->wait();
    side.wait_and_check(0);
    EXPECT_EQ(empty->bytes_sent(), 0);
  });
}

TEST(ProcessCommunicator, ALostProcessIsAnErrorInTheCollectiveThatNeedsIt) {
  MeshCollective c{Mesh(Shape::parse("a:3")), 1, 1, false, {}, 1};
  c.parts = {make_part(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {100000}, 0, 0, 0)};
  EXPECT_NE(failure(
                [&] {
                  run_processes(3, [&](Communicator& communicator) {
                    CollectiveSide side(c, communicator, cpu());
                    side.start(0);
                    side.wait_and_check(0);
                    if (communicator.process() == 1) throw Error(ErrorKind::kPeerLost, "left");
                    side.start(1);
                    side.wait_and_check(1);
                  });
                },
                ErrorKind::kPeerLost),
            "no error");
}

}  // namespace
}  // namespace mtf
