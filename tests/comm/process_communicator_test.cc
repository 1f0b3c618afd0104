// Collectives between processes (threads that share a wire in memory) against those within one process: the
// same bits for every spread of a mesh over processes.
#include "engine/comm/process/process_communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "engine/comm/remote_groups.h"
#include "engine/core/hash.h"
#include "engine/spmd/exchange.h"
#include "tests/support/failure.h"
#include "tests/support/memory_transport.h"

namespace mtf {
namespace {

using Kind = Collective::Kind;
using Bytes = std::vector<std::byte>;

/// Runs `action` in a thread for each process; rethrows what the first of them threw.
void run_processes(int count, const std::function<void(Communicator&)>& action) {
  MemoryWire wire(count);
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const std::unique_ptr<Transport> transport = wire.transport(rank);
        FlightRecord record(100);
        CommunicationThread thread(record);
        ProcessCommunicator communicator(*transport, thread);
        action(communicator);
      } catch (...) {
        errors[rank] = std::current_exception();
        wire.lose(rank);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// One collective instruction on a mesh.
struct MeshCollective {
  Mesh mesh;
  AxisMask axes = 0;        ///< of the groups
  AxisMask varies = 0;      ///< of the inputs
  bool replicated = false;  ///< a copy for every position
  std::vector<Collective> parts;
  uint32_t seed = 0;

  AxisMask stored() const { return replicated ? mesh.all_axes() : varies; }
  AxisMask computed() const {
    const Kind kind = parts[0].kind;
    const bool same = kind == Kind::kAllReduce || kind == Kind::kAllGather;
    return replicated ? mesh.all_axes() : same ? varies & ~axes : varies;
  }
};

std::ostream& operator<<(std::ostream& out, const MeshCollective& c) {
  out << "mesh " << c.mesh.to_string() << ", over " << c.mesh.names(c.axes) << ", varies over "
      << c.mesh.names(c.varies) << (c.replicated ? ", replicated" : "") << ", kind "
      << static_cast<int>(c.parts[0].kind) << " " << name_of(c.parts[0].dtype) << ", inputs";
  for (const Collective& part : c.parts) {
    for (size_t i = 0; i < part.input.size(); ++i) out << (i ? "x" : " ") << part.input[i];
  }
  return out;
}

int64_t input_bytes(const Collective& c) {
  int64_t bytes = static_cast<int64_t>(size_of(c.dtype));
  for (int64_t size : c.input) bytes *= size;
  return bytes;
}

int64_t result_bytes(const Collective& c) {
  if (c.kind == Kind::kReduceScatter) return input_bytes(c) / c.members();
  return c.kind == Kind::kAllGather ? input_bytes(c) * c.members() : input_bytes(c);
}

/// Numbers of many magnitudes, so that the order of a sum shows in its bits.
template <class T>
void fill(Bytes& bytes, uint64_t state) {
  T* data = reinterpret_cast<T*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    const double x = std::ldexp(static_cast<double>(static_cast<int32_t>(state >> 32)),
                                -static_cast<int>(state >> 28 & 15));
    if constexpr (std::is_same_v<T, BFloat16>) {
      data[i] = BFloat16(static_cast<float>(x));
    } else if constexpr (std::is_integral_v<T>) {
      data[i] = static_cast<T>(x / 64);
    } else {
      data[i] = static_cast<T>(x);
    }
  }
}

/// The input of a position: the same for all with the same coordinates along `varies`.
Bytes input_of(const MeshCollective& c, size_t part, int round, int64_t position) {
  const std::array<int64_t, 4> names{c.seed, static_cast<int64_t>(part), round,
                                     c.mesh.project(position, c.varies)};
  const uint64_t state = hash64({reinterpret_cast<const char*>(names.data()), sizeof(names)});
  Bytes bytes(input_bytes(c.parts[part]));
  switch (c.parts[part].dtype) {
    case DType::kFloat32:
      fill<float>(bytes, state);
      break;
    case DType::kBFloat16:
      fill<BFloat16>(bytes, state);
      break;
    case DType::kFloat64:
      fill<double>(bytes, state);
      break;
    default:
      fill<int32_t>(bytes, state);
  }
  return bytes;
}

/// What one process would make.
Bytes expected(const MeshCollective& c, size_t part, int round, int64_t position) {
  const AxisMask others = ~c.axes & c.mesh.all_axes();
  const int64_t base = c.mesh.first_position(c.mesh.project(position, others), others);
  std::vector<Bytes> inputs;
  std::vector<const std::byte*> pointers;
  for (int64_t m = 0; m < c.parts[part].members(); ++m) {
    inputs.push_back(input_of(c, part, round, base + c.mesh.first_position(m, c.axes)));
    pointers.push_back(inputs.back().data());
  }
  Bytes result(result_bytes(c.parts[part]));
  const auto prepared = prepare_in_process(c.parts[part]);
  prepared->run(pointers, c.mesh.project(position, c.axes), result.data(), 0, prepared->tasks());
  return result;
}

/// A process's side of a collective: its copies of inputs and results.
class Side {
 public:
  Side(const MeshCollective& c, Communicator& communicator)
      : c_(c), hosted_(c.mesh, {communicator.processes(), communicator.process()}) {
    RemoteGroupRequest request{c.parts[0].kind, c.axes, c.computed(), c.stored(), {}, {}};
    const HostedCopies inputs = hosted_.copies(c.stored()), results = hosted_.copies(c.computed());
    std::vector<RemotePart> parts;
    for (const Collective& collective : c.parts) {
      inputs_.emplace_back(inputs.size(), Bytes(input_bytes(collective)));
      results_.emplace_back(results.size(), Bytes(result_bytes(collective)));
      request.input = [&](int64_t position) { return inputs_.back()[*inputs.find(position)].data(); };
      request.result = [&](int64_t position) { return results_.back()[*results.find(position)].data(); };
      parts.push_back({collective, remote_groups(hosted_, request)});
    }
    remote_ = communicator.prepare(std::move(parts), "collective of a test");
  }

  void start(int round) {
    const HostedCopies inputs = hosted_.copies(c_.stored());
    for (size_t part = 0; part < c_.parts.size(); ++part) {
      for (int64_t copy = 0; copy < inputs.size(); ++copy) {
        const Bytes data = input_of(c_, part, round, inputs.position(copy));
        std::copy(data.begin(), data.end(), inputs_[part][copy].begin());
      }
      for (Bytes& result : results_[part]) std::fill(result.begin(), result.end(), std::byte{0x5a});
    }
    remote_->start();
  }

  void wait_and_check(int round) {
    remote_->wait();
    const HostedCopies results = hosted_.copies(c_.computed());
    for (size_t part = 0; part < c_.parts.size(); ++part) {
      for (int64_t copy = 0; copy < results.size(); ++copy) {
        EXPECT_TRUE(results_[part][copy] == expected(c_, part, round, results.position(copy)))
            << c_ << "; part " << part << ", round " << round << ", process " << hosted_.process() << " of "
            << hosted_.processes() << ", position " << results.position(copy);
      }
    }
  }

  double bytes_sent() const { return remote_->bytes_sent(); }

 private:
  const MeshCollective& c_;
  HostedMesh hosted_;
  std::vector<std::vector<Bytes>> inputs_, results_;  ///< by part and copy
  std::unique_ptr<RemoteCollective> remote_;
};

/// Runs them all at once, twice over. Returns the bytes that all processes sent for each.
std::vector<double> run_on(int processes, const std::vector<MeshCollective>& collectives) {
  std::mutex mutex;
  std::vector<double> bytes(collectives.size());
  run_processes(processes, [&](Communicator& communicator) {
    std::vector<std::unique_ptr<Side>> sides;
    for (const MeshCollective& c : collectives) sides.push_back(std::make_unique<Side>(c, communicator));
    for (int round = 0; round < 2; ++round) {
      for (const auto& side : sides) side->start(round);
      for (const auto& side : sides) side->wait_and_check(round);
    }
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < sides.size(); ++i) bytes[i] += sides[i]->bytes_sent();
  });
  return bytes;
}

/// The formulas of program.h, for one position in each process: the mean over positions times positions.
double predicted_bytes(const MeshCollective& c) {
  const auto n = static_cast<double>(c.mesh.size_of(c.axes));
  double bytes = 0;
  for (const Collective& part : c.parts) {
    const auto input = static_cast<double>(input_bytes(part));
    if (part.kind == Kind::kAllReduce) bytes += 2 * (n - 1) * input / n;
    if (part.kind == Kind::kReduceScatter || part.kind == Kind::kAllToAll) bytes += (n - 1) * input / n;
    if (part.kind == Kind::kAllGather) bytes += (n - 1) * input;
    if (part.kind == Kind::kExchange && part.input[part.dimension] > 0) {
      double entries = 0;
      for (int64_t m = 0; m < part.members(); ++m) {
        for (const Transfer& t : part.transfers[m])
          entries += t.source == m ? 0 : static_cast<double>(t.count);
      }
      bytes += entries / n * input / static_cast<double>(part.input[part.dimension]);
    }
  }
  return bytes * static_cast<double>(c.mesh.size());
}

Collective collective(const MeshCollective& c, Kind kind, DType dtype, Reduction reduction,
                      std::vector<int64_t> input, int dimension, int concat_dimension, int64_t offset) {
  Collective result{kind, reduction, dtype, {}, std::move(input), dimension, concat_dimension, {}};
  for (int axis = 0; axis < c.mesh.rank(); ++axis) {
    if (has_axis(c.axes, axis)) result.group.push_back(c.mesh.size(axis));
  }
  for (int64_t m = 0; kind == Kind::kExchange && m < result.members(); ++m) {
    result.transfers.push_back(
        shift_transfers(result.members(), result.input[dimension], offset, offset % 2 == 0, m));
  }
  return result;
}

/// A collective of any kind on a mesh of the given shape.
MeshCollective random_collective(const std::string& mesh, std::mt19937& random) {
  MeshCollective c;
  const auto pick = [&](auto... values) {
    const std::array<std::common_type_t<decltype(values)...>, sizeof...(values)> all{values...};
    return all[random() % all.size()];
  };
  c.mesh = Mesh(Shape::parse(mesh));
  c.seed = random();
  c.axes = 1 + random() % c.mesh.all_axes();
  c.varies = c.axes | (random() & c.mesh.all_axes());
  c.replicated = pick(0, 0, 0, 1);
  const Kind kind = pick(Kind::kAllReduce, Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather,
                         Kind::kAllToAll, Kind::kExchange);
  const DType dtype = pick(DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32);
  const Reduction reduction = pick(Reduction::kSum, Reduction::kSum, Reduction::kMax, Reduction::kMin);
  const int64_t n = c.mesh.size_of(c.axes);
  const int64_t parts = pick(1, 1, 2, 5);
  for (int64_t part = 0; part < parts; ++part) {
    std::vector<int64_t> sizes{pick(1, 2, 3), pick(1, 3, 4), pick(1, 2, 31)};
    const int dimension = pick(0, 1, 2);
    int concat = pick(0, 1, 2);
    if (concat == dimension) concat = (concat + 1) % 3;
    // Sizes 0, 1, one less and one more than the members, and some that need several messages.
    int64_t size = pick(int64_t{0}, int64_t{1}, n - 1, n + 1, int64_t{7}, int64_t{40}, int64_t{1501});
    if (kind == Kind::kReduceScatter || kind == Kind::kAllToAll) size *= n;
    sizes[dimension] = size;
    c.parts.push_back(collective(c, kind, dtype, reduction, sizes, dimension, concat, pick(-3, 1, 2, 9)));
  }
  return c;
}

struct Spread {
  const char* mesh;
  int processes;
};

class Spreads : public testing::TestWithParam<Spread> {};

TEST_P(Spreads, RandomCollectivesInFlightTogetherHaveTheBitsOfOneProcess) {
  const auto [mesh, processes] = GetParam();
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 3; ++repeat) {
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
                         testing::Values(Spread{"a:1", 1}, Spread{"a:2", 1}, Spread{"a:2", 2},
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
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [mesh, processes] :
         {Spread{"a:2", 2}, Spread{"a:3", 3}, Spread{"a:6", 2}, Spread{"a:3;b:2", 2}}) {
      std::vector<MeshCollective> collectives;
      for (Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll}) {
        MeshCollective c{Mesh(Shape::parse(mesh)), 1, 1, false, {}, static_cast<uint32_t>(random())};
        c.axes = c.varies = c.mesh.all_axes();
        for (int64_t size : {100003, 50, 17, 40000, 300001}) {
          const int64_t n = kind == Kind::kAllReduce || kind == Kind::kAllGather ? 1 : c.mesh.size();
          c.parts.push_back(collective(c, kind, dtype, Reduction::kSum, {n * (size / n / 3), 3},
                                       size % 2 == 1 && n == 1, 0, 0));
          if (kind == Kind::kAllToAll) c.parts.back().concat_dimension = 1;
          if (n > 1) c.parts.back().dimension = 0;
        }
        collectives.push_back(std::move(c));
      }
      run_on(processes, collectives);
    }
  }
}

TEST(ProcessCommunicator, APreaddedHalfTravelsOnce) {
  // Eight positions in two processes: each sends half of the elements, added over its four members, and then
  // the other half's result.
  MeshCollective c{Mesh(Shape::parse("a:8")), 1, 1, false, {}, 1};
  c.parts = {collective(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {1000}, 0, 0, 0)};
  EXPECT_EQ(run_on(2, {c})[0], 2 * 2 * 500 * 4);
  c.parts[0].dtype = DType::kBFloat16;  // what is pre-added is float32
  EXPECT_EQ(run_on(2, {c})[0], 2 * 500 * (4 + 2));
}

TEST(ProcessCommunicator, GatheredBytesTravelOnceToAProcessThatKeepsSeveralCopies) {
  MeshCollective c{Mesh(Shape::parse("a:4")), 1, 1, true, {}, 1};
  c.parts = {collective(c, Kind::kAllGather, DType::kInt32, Reduction::kSum, {10}, 0, 0, 0)};
  EXPECT_EQ(run_on(2, {c})[0], 2 * 2 * 10 * 4);
}

TEST(ProcessCommunicator, CrossesProcessesSaysTheSameInAll) {
  const Mesh mesh(Shape::parse("a:3;b:2"));
  RemoteGroupRequest over_a{Kind::kAllReduce, 1, 2, 3, {}, {}}, over_b{Kind::kAllReduce, 2, 1, 3, {}, {}};
  RemoteGroupRequest held_by_all{Kind::kAllReduce, 2, 0, 2, {}, {}};
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
  c.parts = {collective(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {1000}, 0, 0, 0)};
  run_processes(3, [&](Communicator& communicator) {
    Side side(c, communicator);
    for (int round = 0; round < 3; ++round) {
      side.start(round);
      // Lengths differ: 0, 100000 and 200000 bytes.
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
  c.parts = {collective(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {10}, 0, 0, 0)};
  run_processes(2, [&](Communicator& communicator) {
    const auto empty = communicator.prepare(std::vector<RemotePart>{}, "nothing here");
    Side side(c, communicator);
    empty->start();
    side.start(0);
    empty->wait();
    side.wait_and_check(0);
    EXPECT_EQ(empty->bytes_sent(), 0);
  });
}

TEST(ProcessCommunicator, ALostProcessIsAnErrorInTheCollectiveThatNeedsIt) {
  MeshCollective c{Mesh(Shape::parse("a:3")), 1, 1, false, {}, 1};
  c.parts = {collective(c, Kind::kAllReduce, DType::kFloat32, Reduction::kSum, {100000}, 0, 0, 0)};
  EXPECT_NE(failure(
                [&] {
                  run_processes(3, [&](Communicator& communicator) {
                    Side side(c, communicator);
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
