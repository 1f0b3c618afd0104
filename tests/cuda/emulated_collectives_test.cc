// Collectives between GPUs, in processes with an emulated device each, compared with those within one
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "engine/backend/cuda/nccl_communicator.h"
#include "engine/comm/process/process_communicator.h"
#include "tests/support/failure.h"
#include "tests/support/mesh_collective.h"

namespace mtf::cuda {
namespace {

using mtf::testing::CollectiveSide;
using mtf::testing::CollectiveSideOptions;
using mtf::testing::make_part;
using mtf::testing::MeshCollective;
using mtf::testing::predicted_bytes;
using mtf::testing::random_collective;
using ::testing::HasSubstr;
using Kind = Collective::Kind;

constexpr int64_t kMostBytes = 64 << 20;
constexpr double kRounding = 1e-5;

/// Memory that the processes of a test share.
class Shared {
 public:
  explicit Shared(int processes) : processes_(processes) {
    const size_t bytes = sizeof(pthread_barrier_t) + static_cast<size_t>(processes * kMostBytes);
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier(), &attributes, static_cast<unsigned>(processes));
  }
  int processes() const { return processes_; }
  void wait() { pthread_barrier_wait(barrier()); }
  char* of(int process) {
    return static_cast<char*>(memory_) + sizeof(pthread_barrier_t) + process * kMostBytes;
  }

 private:
  pthread_barrier_t* barrier() { return static_cast<pthread_barrier_t*>(memory_); }

  int processes_;
  void* memory_;
};

/// Numbers that the processes leave for the test.
class SharedDoubles {
 public:
  explicit SharedDoubles(size_t count)
      : count_(count),
        data_(static_cast<double*>(mmap(nullptr, (count + 1) * sizeof(double), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedDoubles() { munmap(data_, (count_ + 1) * sizeof(double)); }
  SharedDoubles(const SharedDoubles&) = delete;
  SharedDoubles& operator=(const SharedDoubles&) = delete;

  double& operator[](size_t i) const { return data_[i]; }
  std::vector<double> values() const { return {data_, data_ + count_}; }

 private:
  size_t count_;
  double* data_;
};

/// A communicator that gathers through Shared memory.
class HostOfTest final : public Communicator {
 public:
  HostOfTest(Shared& shared, int process) : shared_(shared), process_(process) {}
  int process() const override { return process_; }
  int processes() const override { return shared_.processes(); }
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart>, const std::string&) override {
    return nullptr;
  }
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string&) override {
    const size_t length = bytes.size();
    std::memcpy(shared_.of(process_), &length, sizeof length);
    std::memcpy(shared_.of(process_) + sizeof length, bytes.data(), length);
    shared_.wait();
    auto gathered = std::make_unique<Gathered>();
    for (int process = 0; process < processes(); ++process) {
      size_t other;
      std::memcpy(&other, shared_.of(process), sizeof other);
      gathered->all.emplace_back(shared_.of(process) + sizeof other, other);
    }
    shared_.wait();
    return gathered;
  }
  void check() override {
    if (is_lost) throw Error(ErrorKind::kPeerLost, "rank 1 was lost");
  }

  std::atomic<bool> is_lost = false;

 private:
  struct Gathered final : PendingGather {
    std::vector<std::string> wait() override { return all; }
    std::vector<std::string> all;
  };
  Shared& shared_;
  const int process_;
};

using Action = std::function<void(CudaBackend&, HostOfTest&, NcclCommunicator&)>;

/// Runs `action` in `count` processes, each with a device, and expects that nothing fails there.
void in_processes(int count, const Action& action) {
  constexpr unsigned kMostSeconds = 120;
  Shared shared(count);
  std::fflush(stdout);
  std::vector<pid_t> children;
  for (int process = 0; process < count; ++process) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(kMostSeconds);
    {
      CudaBackend backend(open_device(0));
      HostOfTest host(shared, process);
      NcclCommunicator communicator(backend, host, {});
      action(backend, host, communicator);
    }
    std::fflush(stdout);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  for (int process = 0; process < count; ++process) {
    int status = 0;
    waitpid(children[static_cast<size_t>(process)], &status, 0);
    EXPECT_EQ(status, 0) << "process " << process;
  }
}

/// Runs all collectives concurrently, in two rounds. Returns the bytes that all processes send in a run of
/// each.
std::vector<double> check_collectives(int processes, const std::vector<MeshCollective>& collectives,
                                      const CollectiveSideOptions& options = {.tolerance = kRounding}) {
  SharedDoubles bytes(collectives.size());
  in_processes(processes, [&](CudaBackend& backend, HostOfTest& host, NcclCommunicator& communicator) {
    std::vector<std::unique_ptr<CollectiveSide>> sides;
    for (const MeshCollective& c : collectives)
      sides.push_back(std::make_unique<CollectiveSide>(c, communicator, backend, options));
    for (int round = 0; round < 2; ++round) {
      for (const auto& side : sides) side->start(round);
      for (const auto& side : sides) side->wait_and_check(round);
    }
    for (size_t i = 0; i < sides.size(); ++i) {
      const std::string own = std::to_string(sides[i]->remote().bytes_sent());
      double all = 0;
      for (const std::string& sent : all_gather(host, own, "bytes")) all += std::stod(sent);
      bytes[i] = all;
    }
  });
  return bytes.values();
}

struct Spread {
  const char* mesh;
  int processes;
};

class Spreads : public ::testing::TestWithParam<Spread> {};

TEST_P(Spreads, RandomCollectivesAreThoseOfOneProcess) {
  const auto [mesh, processes] = GetParam();
  std::mt19937 random(11);
  std::vector<MeshCollective> collectives;
  for (int i = 0; i < 30; ++i) collectives.push_back(random_collective(mesh, random));
  const std::vector<double> bytes = check_collectives(processes, collectives);
  if (processes != collectives[0].mesh.size()) return;
  for (size_t i = 0; i < collectives.size(); ++i)
    EXPECT_NEAR(bytes[i], predicted_bytes(collectives[i]), 1e-6 * bytes[i]) << collectives[i];
}

TEST_P(Spreads, AGuardThatDoesNotHoldLeavesResultsAsTheyAre) {
  const auto [mesh, processes] = GetParam();
  std::mt19937 random(12);
  for (const bool holds : {false, true}) {
    std::vector<MeshCollective> collectives;
    for (int i = 0; i < 12; ++i) collectives.push_back(random_collective(mesh, random));
    check_collectives(processes, collectives, {.guard = holds, .tolerance = kRounding});
  }
}

INSTANTIATE_TEST_SUITE_P(
    , Spreads,
    ::testing::Values(Spread{"a:2", 2}, Spread{"a:3", 3}, Spread{"a:5", 5}, Spread{"a:2;b:2", 4},
                      Spread{"a:3;b:2", 6}, Spread{"a:2;b:2;c:2", 8}, Spread{"a:4", 2}, Spread{"a:8", 2},
                      Spread{"a:6", 3}, Spread{"a:10", 2}, Spread{"a:2;b:2", 2}, Spread{"a:3;b:2", 2},
                      Spread{"a:3;b:2", 3}, Spread{"a:2;b:3", 3}, Spread{"a:2;b:4", 4}, Spread{"a:4;b:2", 2},
                      Spread{"a:2;b:6", 4}, Spread{"a:2;b:3;c:2", 3}, Spread{"a:2;b:3;c:2", 4},
                      Spread{"a:2;b:2;c:3", 4}),
    [](const auto& info) {
      std::string name = std::to_string(info.param.processes) + "_processes_" + info.param.mesh;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
      return name;
    });

MeshCollective all_reduce_of(const char* mesh, AxisMask axes, DType dtype, std::vector<int64_t> input) {
  MeshCollective c{Mesh(Shape::parse(mesh)), axes, 0, false, {}, 5};
  c.varies = c.mesh.all_axes();
  c.parts = {make_part(c, Kind::kAllReduce, dtype, Reduction::kSum, std::move(input), 0, 0, 0)};
  return c;
}

TEST(NcclCommunicator, SumsOfBFloat16HaveTheBitsOfOneProcess) {
  check_collectives(6, {all_reduce_of("a:2;b:3", 3, DType::kBFloat16, {7, 1001})}, {.tolerance = 0});
  check_collectives(3, {all_reduce_of("a:4;b:3", 3, DType::kBFloat16, {7, 1001})}, {.tolerance = 0});
  // Some of the data that the owners add has the accumulator's type and unusual alignment.
  std::vector<MeshCollective> mixed;
  for (const int64_t size : {1, 3, 1001, 70'001})
    mixed.push_back(all_reduce_of("a:2;b:3", 2, DType::kBFloat16, {size}));
  check_collectives(3, mixed, {.tolerance = 0});
}

TEST(NcclCommunicator, SumsOfGroupsThatAreSpreadUnevenlyHaveTheBitsOfOneProcess) {
  check_collectives(3, {all_reduce_of("rows:2;cols:3", 2, DType::kFloat32, {7, 1001})}, {.tolerance = 0});
}

TEST(NcclCommunicator, APreaddedHalfTravelsOnce) {
  // Eight positions are in two processes. Each process sends half of the elements, summed over its four
  // members, and then the result for the other half.
  const auto bytes = check_collectives(2, {all_reduce_of("a:8", 1, DType::kFloat32, {1024}),
                                           all_reduce_of("a:8", 1, DType::kBFloat16, {1024})});
  EXPECT_EQ(bytes[0], 2 * 2 * 512 * 4);
  EXPECT_EQ(bytes[1], 2 * 512 * (4 + 2));  // partial sums are float32
}

TEST(NcclCommunicator, GatheredBytesTravelOnceToAProcessThatKeepsSeveralCopies) {
  MeshCollective c{Mesh(Shape::parse("a:4")), 1, 1, true, {}, 1};
  c.parts = {make_part(c, Kind::kAllGather, DType::kInt32, Reduction::kSum, {10}, 0, 0, 0)};
  EXPECT_EQ(check_collectives(2, {c})[0], 2 * 2 * 10 * 4);
}

TEST(NcclCommunicator, ACollectiveIsRecorded) {
  std::vector<MeshCollective> collectives;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll}) {
      MeshCollective& c =
          collectives.emplace_back(MeshCollective{Mesh(Shape::parse("a:2;b:2")), 2, 3, false, {}, 9});
      c.parts = {make_part(c, kind, dtype, Reduction::kSum, {6, 8, 2}, 1, 0, 0)};
    }
  }
  for (const int processes : {2, 4})
    in_processes(processes, [&](CudaBackend& backend, HostOfTest&, NcclCommunicator& communicator) {
      std::vector<std::unique_ptr<CollectiveSide>> sides;
      for (const MeshCollective& c : collectives)
        sides.push_back(std::make_unique<CollectiveSide>(c, communicator, backend,
                                                         CollectiveSideOptions{.tolerance = kRounding}));
      for (const auto& side : sides) side->start(0);
      for (const auto& side : sides) side->wait_and_check(0);
      const std::unique_ptr<Recording> recording = backend.record([&] {
        for (const auto& side : sides) side->remote().start();
        for (const auto& side : sides) side->remote().wait();
      });
      for (int round = 1; round < 3; ++round) {
        for (const auto& side : sides) side->fill(round);
        recording->replay();
        for (const auto& side : sides) side->check(round);
      }
    });
}

TEST(NcclCommunicator, ALostProcessIsAnErrorOfTheNextWait) {
  in_processes(1, [&](CudaBackend& backend, HostOfTest& host, NcclCommunicator&) {
    backend.wait();
    host.is_lost = true;
    std::string error;
    while (error.empty() || error == "no error")
      error = failure([&] { backend.wait(); }, ErrorKind::kPeerLost);
    EXPECT_THAT(error, HasSubstr("rank 1 was lost"));
  });
}

}  // namespace
}  // namespace mtf::cuda
