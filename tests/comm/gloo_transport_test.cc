#include "engine/comm/process/gloo_transport.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/comm/process/peer_sockets.h"
#include "engine/comm/security/authentication.h"
#include "tests/support/failure.h"
#include "tests/support/memory_store.h"
#include "tests/support/process_entries.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> gloo_peer_names(int size) {
  std::vector<std::string> names;
  for (int rank = 0; rank < size; ++rank) names.push_back("rank " + std::to_string(rank) + " (here)");
  return names;
}

GlooOptions gloo_options(Store& store, int rank, int size, const std::string& address, FlightRecord& record,
                         Milliseconds timeout = Milliseconds(60'000)) {
  return {
      .store = store,
      .await = [&store](const std::string& key, int) { return store.get(key, Milliseconds(60'000)).value(); },
      .check = [] {},
      .access = {},
      .session = "one run",
      .rank = rank,
      .size = size,
      .address = address,
      .connect_timeout = Milliseconds(60'000),
      .collective_timeout = timeout,
      .record = record,
      .peers = gloo_peer_names(size)};
}

/// Runs threads that act as processes, each with its transport. Messages of ranks for which is_local(rank) is true go from memory
/// to memory among them.
void run_gloo_ranks(int size, const std::function<bool(int rank)>& is_local,
                    const std::function<void(Transport& transport, FlightRecord& record)>& play,
                    Milliseconds timeout = Milliseconds(60'000)) {
  MemoryStore store;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      FlightRecord record(10);
      GlooOptions options = gloo_options(store, rank, size, "127.0.0.1", record, timeout);
      options.local = is_local(rank);
      const auto transport = connect_gloo(options);
      play(*transport, record);
    });
  for (std::thread& rank : ranks) rank.join();
}

/// A barrier: no process closes its connections before all have arrived.
class Everyone {
 public:
  explicit Everyone(int size) : missing_(size) {}
  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    --missing_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

/// The ranks whose messages go from memory to memory.
struct LocalRanks {
  const char* name;
  bool (*is_local)(int rank);
};

class GlooTransportOf : public ::testing::TestWithParam<LocalRanks> {
 protected:
  static void run_ranks(int size, const std::function<void(Transport& transport, FlightRecord& record)>& play,
                        Milliseconds timeout = Milliseconds(60'000)) {
    run_gloo_ranks(size, GetParam().is_local, play, timeout);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, GlooTransportOf,
                         ::testing::Values(LocalRanks{"Sockets", [](int) { return false; }},
                                           LocalRanks{"Memory", [](int) { return true; }},
                                           LocalRanks{"Both", [](int rank) { return rank != 1; }}),
                         [](const auto& info) { return info.param.name; });

TEST_P(GlooTransportOf, DeliversMessagesByTagFromEveryRankToEveryOther) {
  constexpr int kSize = 4, kMessages = 100;
  Everyone end(kSize);
  run_ranks(kSize, [&](Transport& transport, FlightRecord&) {
    const int own = transport.rank();
    const auto value = [](int from, int to, int n) {
      return static_cast<uint64_t>(from * 100000 + to * 1000 + n);
    };
    std::vector<uint64_t> sent(kSize * kMessages), received(kSize * kMessages);
    const auto out = transport.buffer(std::as_writable_bytes(std::span(sent)));
    const auto in = transport.buffer(std::as_writable_bytes(std::span(received)));
    int posted = 0;
    for (int peer = 0; peer < kSize; ++peer) {
      if (peer == own) continue;
      for (int n = 0; n < kMessages; ++n, ++posted) {
        const auto at = static_cast<size_t>(peer * kMessages + n);
        sent[at] = value(own, peer, n);
        out->send(peer, static_cast<uint64_t>(n), 8 * at, 8);
      }
      // The receives are posted in reverse order.
      for (int n = kMessages; n-- > 0;)
        in->receive(peer, static_cast<uint64_t>(n), 8 * static_cast<size_t>(peer * kMessages + n), 8);
    }
    for (int i = 0; i < posted; ++i) in->wait_received();
    for (int i = 0; i < posted; ++i) out->wait_sent();
    for (int peer = 0; peer < kSize; ++peer)
      for (int n = 0; n < kMessages && peer != own; ++n)
        EXPECT_EQ(received[static_cast<size_t>(peer * kMessages + n)], value(peer, own, n));
    end.arrive_and_wait();
  });
}

TEST_P(GlooTransportOf, MovesMessagesOfAnySizeBothWaysAtOnce) {
  Everyone end(2);
  run_ranks(2, [&](Transport& transport, FlightRecord&) {
    const int peer = 1 - transport.rank();
    std::vector<std::byte> sent(2'000'001, std::byte(transport.rank() + 1)), received(sent.size());
    const auto out = transport.buffer(sent), in = transport.buffer(received);
    uint64_t tag = 0;
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{1000}, size_t{65536}, size_t{1} << 20, sent.size()}) {
      in->receive(peer, ++tag, 0, bytes);
      out->send(peer, tag, sent.size() - bytes, bytes);
      in->wait_received();
      out->wait_sent();
      EXPECT_EQ(std::count(received.begin(), received.end(), std::byte(peer + 1)),
                static_cast<int64_t>(bytes));
    }
    end.arrive_and_wait();
  });
}

TEST_P(GlooTransportOf, NamesThePeerWhoseConnectionCloses) {
  Everyone connected(3), met(2);
  run_ranks(3, [&](Transport& transport, FlightRecord& record) {
    connected.arrive_and_wait();
    if (transport.rank() == 2) return;  // closes its connections
    record.queued(5, "all_reduce w over data", 8);
    record.begun(5);
    std::byte byte{};
    const auto in = transport.buffer({&byte, 1});
    const std::string error = failure(
        [&] {
          in->receive(2, 1, 0, 1);
          in->wait_received();
        },
        ErrorKind::kPeerLost);
    EXPECT_THAT(error, AllOf(HasSubstr("the connection to rank 2 (here) was lost"),
                             HasSubstr("in all_reduce w over data (collective 5)")));
    met.arrive_and_wait();
    // The other processes can continue.
    std::byte sent{7}, received{};
    const auto to = transport.buffer({&sent, 1}), from = transport.buffer({&received, 1});
    const int peer = 1 - transport.rank();
    from->receive(peer, 9, 0, 1);
    to->send(peer, 9, 0, 1);
    from->wait_received();
    to->wait_sent();
    EXPECT_EQ(received, std::byte{7});
  });
}

TEST_P(GlooTransportOf, NamesThePeerThatSendsNothing) {
  Everyone end(2);
  run_ranks(
      2,
      [&](Transport& transport, FlightRecord& record) {
        record.queued(1, "all_gather x over cols", 8);
        record.begun(1);
        std::byte byte{};
        const auto buffer = transport.buffer({&byte, 1});
        if (transport.rank() == 0) {
          EXPECT_THAT(failure(
                          [&] {
                            buffer->receive(1, 1, 0, 1);
                            buffer->wait_received();
                          },
                          ErrorKind::kPeerLost),
                      HasSubstr("rank 1 (here) has sent nothing for 400 ms in all_gather x over cols"));
          EXPECT_EQ(record.current()->waits_for, 1);
          EXPECT_THAT(failure([&] {
                        buffer->send(1, 2, 0, 1);
                        buffer->wait_sent();
                      }),
                      HasSubstr("rank 1 (here) has taken nothing for 400 ms"));
        }
        end.arrive_and_wait();
      },
      Milliseconds(400));
}

TEST_P(GlooTransportOf, AbortEndsWaitsAndAllThatFollows) {
  Everyone end(2);
  run_ranks(2, [&](Transport& transport, FlightRecord&) {
    std::byte byte{};
    const auto buffer = transport.buffer({&byte, 1});
    buffer->receive(1 - transport.rank(), 1, 0, 1);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      transport.abort("rank 5 failed first: no disk");
    });
    EXPECT_THAT(failure([&] { buffer->wait_received(); }, ErrorKind::kPeerLost),
                HasSubstr("rank 5 failed first"));
    EXPECT_THAT(failure([&] { buffer->send(1 - transport.rank(), 2, 0, 1); }),
                HasSubstr("rank 5 failed first"));
    other.join();
    end.arrive_and_wait();
  });
}

TEST(GlooTransport, StrangersTakeNobodysPlace) {
  constexpr int kSize = 3;
  MemoryStore store;
  const Secret secret("the secret of this run");
  // As soon as a rank can be reached, strangers connect: one is silent, one speaks as Gloo does, one is of
  // another run.
  std::vector<Socket> strangers;
  std::mutex mutex;
  std::vector<std::thread> visits;
  for (int rank = 0; rank < kSize; ++rank)
    visits.emplace_back([&, rank] {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      const HostPort address =
          *parse_host_port(*store.get("gloo/" + std::to_string(rank), Milliseconds(20'000)));
      for (int i = 0; i < 30; ++i) {
        Socket socket = std::move(connect_to(address.host, address.port, deadline).socket);
        if (!socket.open()) break;  // all processes are connected
        if (i % 3 == 1) ::send(socket.get(), std::string(48, '\1').data(), 48, MSG_NOSIGNAL);
        if (i % 3 == 2) {
          const std::string other_run = "data, rank " + std::to_string(rank) + ", another run";
          EXPECT_NE(authenticate(socket, secret, other_run, 2, deadline).outcome,
                    Authentication::Outcome::kDone);
        }
        const std::lock_guard lock(mutex);
        strangers.push_back(std::move(socket));
      }
    });
  Everyone end(kSize);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank)
    ranks.emplace_back([&, rank] {
      // The strangers connect first.
      if (rank == kSize - 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      FlightRecord record(10);
      GlooOptions options = gloo_options(store, rank, kSize, "127.0.0.1", record);
      options.access.secret = secret;
      const auto transport = connect_gloo(options);
      std::vector<std::byte> sent(kSize, std::byte(rank)), received(kSize);
      const auto out = transport->buffer(sent), in = transport->buffer(received);
      for (int peer = 0; peer < kSize; ++peer) {
        if (peer == rank) continue;
        in->receive(peer, 1, static_cast<size_t>(peer), 1);
        out->send(peer, 1, 0, 1);
      }
      for (int peer = 0; peer + 1 < kSize; ++peer) in->wait_received();
      for (int peer = 0; peer + 1 < kSize; ++peer) out->wait_sent();
      for (int peer = 0; peer < kSize; ++peer) {
        if (peer == rank) continue;
        EXPECT_EQ(received[static_cast<size_t>(peer)], std::byte(peer));
      }
      end.arrive_and_wait();
    });
  for (std::thread& rank : ranks) rank.join();
  for (std::thread& visit : visits) visit.join();
  EXPECT_FALSE(strangers.empty());
}

TEST(GlooTransport, TheFailureOfTheRunEndsTheWaitForAPeer) {
  MemoryStore store;
  FlightRecord record(10);
  store.set("gloo/1", "127.0.0.1:1");  // rank 1 has begun to connect, but does not continue
  GlooOptions options = gloo_options(store, 0, 2, "127.0.0.1", record);
  options.check = [] { throw Error(ErrorKind::kPeerLost, "rank 5 failed first: no disk"); };
  EXPECT_THAT(failure([&] { connect_gloo(options); }, ErrorKind::kPeerLost),
              HasSubstr("rank 5 failed first"));
  options.check = [] {};
  options.connect_timeout = Milliseconds(300);
  EXPECT_THAT(failure([&] { connect_gloo(options); }, ErrorKind::kPeerLost),
              HasSubstr("rank 1 (here) has not connected to rank 0 (here) within 0.3 s"));
}

TEST(GlooTransport, APeerThatHangsAfterItHasConnectedIsNamed) {
  MemoryStore store;
  Everyone end(2);
  std::thread hangs([&] {
    FlightRecord record(10);
    const std::vector<Socket> sockets = connect_peers(gloo_options(store, 1, 2, "127.0.0.1", record));
    end.arrive_and_wait();
  });
  FlightRecord record(10);
  const GlooOptions options = gloo_options(store, 0, 2, "127.0.0.1", record, Milliseconds(400));
  EXPECT_THAT(failure([&] { connect_gloo(options); }, ErrorKind::kPeerLost),
              HasSubstr("rank 1 (here) has sent nothing for 400 ms"));
  end.arrive_and_wait();
  hangs.join();
}

TEST(GlooTransportDeathTest, TellsTheCollectiveWhenGlooEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exchange_of_unequal_sizes = [] {
    const auto sockets = [](int) { return false; };
    run_gloo_ranks(2, sockets, [&](Transport& transport, FlightRecord& record) {
      record.queued(7, "all_reduce w over data", 8);
      record.begun(7);
      std::vector<std::byte> bytes(8);
      const auto buffer = transport.buffer(bytes);
      if (transport.rank() == 0) {
        buffer->send(1, 1, 0, 8);
        buffer->wait_sent();
      } else {
        buffer->receive(0, 1, 0, 4);
      }
      std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  };
  EXPECT_EXIT(exchange_of_unequal_sizes(), testing::ExitedWithCode(75),
              "the connection between the processes failed in all_reduce w over data \\(collective 7\\)");
}

TEST(GlooTransport, NeedsAnAddress) {
  MemoryStore store;
  FlightRecord record(10);
  EXPECT_THAT(
      failure([&] { connect_gloo(gloo_options(store, 0, 2, "no address", record)); }, ErrorKind::kSystem),
      HasSubstr("`no address` is no IP address"));
}

TEST_P(GlooTransportOf, LeavesNoDescriptorAndNoThread) {
  const auto cycle = [](int size) {
    Everyone end(size);
    run_ranks(size, [&](Transport& transport, FlightRecord&) {
      std::vector<std::byte> sent(100), received(100);
      const auto out = transport.buffer(sent), in = transport.buffer(received);
      const int next = (transport.rank() + 1) % size, previous = (transport.rank() + size - 1) % size;
      in->receive(previous, 1, 0, 100);
      out->send(next, 1, 0, 100);
      in->wait_received();
      out->wait_sent();
      end.arrive_and_wait();
    });
  };
  cycle(2);
  const int64_t descriptors = entries_of(kOpenDescriptors), threads = entries_of(kRunningThreads);
  for (int i = 0; i < 20; ++i) cycle(2 + i % 3);
  EXPECT_EQ(settled_entries(kOpenDescriptors, descriptors), descriptors);
  EXPECT_EQ(settled_entries(kRunningThreads, threads), threads);
}

}  // namespace
}  // namespace mtf
