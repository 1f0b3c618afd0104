// Connections, strangers and failures, and synchronous training.
#include "engine/comm/parameters/parameter_service.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "engine/comm/parameters/parameter_client.h"
#include "tests/support/failure.h"
#include "tests/support/parameter_run.h"

namespace mtf::parameter_run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ParameterService, SynchronousWorkersSeeTheSumOfAllGradientsInEveryVersion) {
  Server first({0}, quick(3)), second({1}, quick(3));
  const auto run = [&](int number) {
    ParameterClient client(worker(number, {first.address(), second.address()}));
    if (number == 0) {
      start(client, {.step = 5, .next_row = 50, .tokens = 7, .rate_scale = 0.5});
    } else {
      client.await_start();
    }
    std::vector<double> values(2);
    for (int64_t version = 5; version < 25; ++version) {
      const PulledState state = client.pull(version, everything(client, values));
      EXPECT_EQ(state.step, version);
      EXPECT_EQ(state.tokens, 7 + 2 * (version - 5));
      EXPECT_EQ(values[0], 10 - 3 * static_cast<double>(version - 5));
      EXPECT_EQ(values[1], 20 - 3 * static_cast<double>(version - 5));
      step(client, number == 0, version, number + 1);
    }
    EXPECT_EQ(client.pull(25, {}).grad_norm, 72);
    client.leave();
  };
  std::vector<std::future<void>> workers;
  for (int number = 0; number < 3; ++number) workers.push_back(std::async(std::launch::async, run, number));
  for (auto& each : workers) each.get();
  EXPECT_EQ(first.end(), "ended");
  EXPECT_EQ(second.end(), "ended");
}

TEST(ParameterService, AddsUpEachGradientOnceWhileOthersAreOnTheirWay) {
  std::vector<uint32_t> ids(20);
  std::iota(ids.begin(), ids.end(), 0);
  Server server(ids, quick(3));
  const auto run = [&](int number) {
    ParameterClient client(worker(number, {server.address()}));
    if (number == 0) {
      for (const uint32_t id : ids) client.set(0, id, bytes_of(0), 100 + id);
      client.start({});
    } else {
      client.await_start();
    }
    std::vector<double> values(ids.size());
    std::vector<PulledVariable> all;
    for (const uint32_t id : ids) all.push_back({0, id, std::as_writable_bytes(std::span(&values[id], 1))});
    for (int64_t version = 0; version < 100; ++version) {
      client.pull(version, all);
      for (const uint32_t id : ids) {
        EXPECT_EQ(values[id], -static_cast<double>(6 * version * id));
        client.push(0, id, version, bytes_of(static_cast<double>((number + 1) * id)));
      }
      if (number != 0) continue;
      EXPECT_EQ(client.squares(version)[0].size(), ids.size());
      client.update({.step = version}, std::vector<double>(2));
    }
    client.pull(100, {});
    client.leave();
  };
  std::vector<std::future<void>> workers;
  for (int number = 0; number < 3; ++number) workers.push_back(std::async(std::launch::async, run, number));
  for (auto& each : workers) each.get();
  EXPECT_EQ(server.end(), "ended");
  for (const uint32_t id : ids) EXPECT_EQ(server.numbers.begins.at(id), 100 + id);
}

/// Sends bytes to a port, and returns the connection's descriptor.
int strange_connection(int port, const std::string& bytes) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  return descriptor;
}

TEST(ParameterService, IsNotDisturbedByGarbageOnItsPort) {
  Server server({0}, quick(1));
  std::vector<int> open;
  std::mt19937 random(1);
  for (int i = 0; i < 30; ++i) {
    std::string bytes(static_cast<size_t>(i * 7), ' ');
    for (char& c : bytes) c = static_cast<char>(random());
    open.push_back(strange_connection(server.port(), bytes));
  }
  close(strange_connection(server.port(), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  close(strange_connection(server.port(), ""));
  ParameterClient client(worker(0, {server.address()}));
  start(client, {});
  std::vector<double> values(1);
  for (int64_t version = 0; version < 3; ++version) step(client, true, version, 1);
  client.pull(3, everything(client, values));
  EXPECT_EQ(values[0], 7);
  client.leave();
  EXPECT_EQ(server.end(), "ended");
  EXPECT_THAT(server.log(), HasSubstr("turned 127.0.0.1:"));
  for (const int descriptor : open) close(descriptor);
}

TEST(ParameterService, RefusesAPullOfAnIdWithoutItsEnd) {
  Server server({0}, quick(1));
  FramedSocket socket = connect_framed({.address = server.address(), .purpose = kParameterPurpose},
                                       milliseconds(3000), milliseconds(3000));
  const std::string hello = R"({"worker": 0, "fields": [["program", "p"], ["seed", "1"]]})";
  socket.send({.operation = static_cast<uint16_t>(ParameterOperation::kHello)},
              std::as_bytes(std::span(hello)));
  socket.receive();
  socket.send({.operation = static_cast<uint16_t>(ParameterOperation::kPull)},
              std::as_bytes(std::span(hello).first(6)));
  const Frame reply = socket.receive();
  EXPECT_EQ(reply.operation, static_cast<uint16_t>(ParameterOperation::kError));
  std::string text(reply.bytes, ' ');
  socket.receive_bytes(std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "worker 0 sends 6 bytes where ids of 4 are due");
  EXPECT_THAT(server.end(), HasSubstr(text));
}

TEST(ParameterService, SlowConnectionsKeepNoWorkerAway) {
  const Access access{.secret = Secret("the secret of this run")};
  Server server({0}, quick(1), access);
  std::vector<int> open;
  for (int i = 0; i < 200; ++i) open.push_back(strange_connection(server.port(), i % 2 == 0 ? "M" : ""));
  std::atomic<bool> stop = false;
  std::thread drips([&] {
    for (size_t i = 0; !stop; i = (i + 1) % open.size()) {
      [[maybe_unused]] const ssize_t sent = send(open[i], "T", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  ParameterClientOptions options = worker(0, {server.address()});
  EXPECT_THAT(failure([&] { ParameterClient other(options); }, ErrorKind::kConfig),
              HasSubstr("has another secret than this process"));
  options.access = access;
  ParameterClient client(options);
  start(client, {});
  step(client, true, 0, 1);
  client.leave();
  EXPECT_EQ(server.end(), "ended");
  stop = true;
  drips.join();
  for (const int descriptor : open) close(descriptor);
}

TEST(ParameterService, AMessageHasAWholeTimeNotOneForEachByte) {
  FramedListener listener({"127.0.0.1", 0}, {}, kParameterPurpose);
  auto accepted =
      std::async(std::launch::async, [&] { return listener.accept(milliseconds(3000), milliseconds(300)); });
  const Socket slow = std::move(
      connect_to("127.0.0.1", listener.port(), std::chrono::steady_clock::now() + milliseconds(3000)).socket);
  authenticate(slow, Secret(), kParameterPurpose, 0, std::chrono::steady_clock::now() + milliseconds(3000));
  FramedSocket socket = std::move(*accepted.get());
  std::jthread drips([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      send(slow.get(), "M", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  EXPECT_THAT(failure([&] { socket.receive(); }, ErrorKind::kPeerLost),
              HasSubstr("has not brought a whole message in 0.3"));
}

TEST(ParameterService, TheEndOfAConnectionIsSeenBeforeTheBytesInFrontOfItAreRead) {
  FramedListener listener({"127.0.0.1", 0}, {}, kParameterPurpose);
  auto accepted =
      std::async(std::launch::async, [&] { return listener.accept(milliseconds(3000), milliseconds(3000)); });
  std::optional<FramedSocket> sender =
      connect_framed({.address = fmt::format("127.0.0.1:{}", listener.port()), .purpose = kParameterPurpose},
                     milliseconds(3000), milliseconds(3000));
  FramedSocket socket = std::move(*accepted.get());
  sender->send({.operation = 3}, bytes_of(1));
  EXPECT_FALSE(socket.has_ended());
  sender.reset();
  EXPECT_THAT(failure(
                  [&] {
                    for (int i = 0; i < 300; ++i, std::this_thread::sleep_for(milliseconds(10)))
                      socket.require_open();
                  },
                  ErrorKind::kPeerLost),
              HasSubstr("was closed by the other side"));
  EXPECT_EQ(socket.receive().operation, 3);
}

TEST(ParameterService, NamesTheWorkerAndTheFieldThatDiffers) {
  Server server({0}, quick(2));
  ParameterClientOptions other = worker(1, {server.address()});
  other.fields[1].second = "2";
  EXPECT_THAT(failure([&] { ParameterClient client(other); }, ErrorKind::kConfig),
              AllOf(HasSubstr("parameter server 0"), HasSubstr("worker 1 ("),
                    HasSubstr("differs in seed: 2, at parameter server 0 1")));
  EXPECT_THAT(failure([&] { ParameterClient client(worker(2, {server.address()})); }),
              HasSubstr("there is no worker 2: `cluster.jobs` has 2"));
  const ParameterClient first(worker(1, {server.address()}));
  EXPECT_THAT(failure([&] { ParameterClient second(worker(1, {server.address()})); }, ErrorKind::kConfig),
              AllOf(HasSubstr("worker 1 is here already"), HasSubstr("two processes have the same task")));
}

TEST(ParameterService, ASynchronousRunGoesBackWhenTheChiefSetsItsVariablesAgain) {
  Server server({0}, quick(2));
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  std::vector<double> values(1);
  start(chief, {.step = 3});
  other.await_start();
  step(other, false, 3, 1);
  step(chief, true, 3, 1);
  other.pull(4, everything(other, values));
  EXPECT_EQ(values[0], 8);
  // The other worker now pulls from the second start, although the server has a later version of the first
  // one.
  other.await_start();
  auto pulled = std::async(std::launch::async, [&] { return other.pull(3, everything(other, values)); });
  EXPECT_EQ(pulled.wait_for(milliseconds(100)), std::future_status::timeout);
  start(chief, {.step = 3, .rate_scale = 0.5});
  EXPECT_EQ(pulled.get().step, 3);
  EXPECT_EQ(values[0], 10);
  step(other, false, 3, 1);
  step(chief, true, 3, 1);
  other.pull(4, everything(other, values));
  EXPECT_EQ(values[0], 9);
}

TEST(ParameterService, SaysWhichWorkerDidNotCome) {
  Server server({0}, [] {
    ParameterServiceOptions options = quick(3);
    options.connect_timeout = milliseconds(300);
    return options;
  }());
  const ParameterClient first(worker(0, {server.address()}));
  EXPECT_THAT(server.end(), HasSubstr("workers 1, 2 did not connect within 0.3 s"));
}

TEST(ParameterService, ALostWorkerEndsASynchronousRunForAllWithItsName) {
  Server server({0}, quick(2));
  ParameterClient chief(worker(0, {server.address()}));
  start(chief, {});
  {
    ParameterClient other(worker(1, {server.address()}));
    step(other, false, 0, 1);
    step(chief, true, 0, 1);
    other.pull(1, {});
  }
  EXPECT_THAT(failure([&] { step(chief, true, 1, 1); }, ErrorKind::kPeerLost),
              HasSubstr("worker 1 (127.0.0.1:"));
  EXPECT_THAT(server.end(), HasSubstr("was lost"));
}

TEST(ParameterService, AServerWithoutMemoryTellsItsWorkersSo) {
  Server server({0}, quick(2));
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  start(chief, {});
  server.numbers.is_exhausted = true;
  step(other, false, 0, 1);
  const std::string what = "mtf-train: there is not enough memory";
  EXPECT_THAT(failure([&] { step(chief, true, 0, 1); }, ErrorKind::kSystem),
              AllOf(HasSubstr("parameter server 0 (127.0.0.1:"), HasSubstr(what)));
  EXPECT_THAT(failure([&] { other.pull(1, {}); }, ErrorKind::kSystem), HasSubstr(what));
  EXPECT_THAT(server.end(), StartsWith(what));
  EXPECT_THAT(server.log(), Not(HasSubstr(what))) << "the program prints how serve() ends";
}

TEST(ParameterService, AWorkerThatStopsIsNamedAfterTheTimeout) {
  ParameterServiceOptions options = quick(2);
  options.collective_timeout = milliseconds(300);
  Server server({0}, options);
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  start(chief, {});
  EXPECT_THAT(failure([&] { step(chief, true, 0, 1); }, ErrorKind::kPeerLost),
              AllOf(HasSubstr("step 1 waits for more than 0.3 s for gradients of worker 1 (127.0.0.1:")));
}

TEST(ParameterService, ALostServerIsNamed) {
  FramedListener listener({"127.0.0.1", 0}, {}, kParameterPurpose);
  auto dies = std::async(std::launch::async, [&] {
    std::optional<FramedSocket> socket = listener.accept(milliseconds(3000), milliseconds(3000));
    const Frame hello = socket->receive();
    socket->skip_bytes(hello.bytes);
    socket->send({.operation = hello.operation});
  });
  const std::string address = fmt::format("127.0.0.1:{}", listener.port());
  ParameterClient client(worker(0, {address}));
  dies.get();
  EXPECT_THAT(failure([&] { client.pull(0, {}); }, ErrorKind::kPeerLost),
              AllOf(HasSubstr("parameter server 0 (" + address), HasSubstr("was lost")));
}

TEST(ParameterService, ALostServerIsNamedAlsoWhereAnotherTellsOfAWorkerThatEndedWithIt) {
  Server first({0}, quick(2));
  FramedListener second({"127.0.0.1", 0}, {}, kParameterPurpose);
  auto dies = std::async(std::launch::async, [&] {
    std::vector<FramedSocket> sockets;
    for (int i = 0; i < 2; ++i) {
      FramedSocket& socket = sockets.emplace_back(*second.accept(milliseconds(3000), milliseconds(3000)));
      const Frame hello = socket.receive();
      socket.skip_bytes(hello.bytes);
      socket.send({.operation = hello.operation});
    }
  });
  const std::vector<std::string> servers{first.address(), fmt::format("127.0.0.1:{}", second.port())};
  ParameterClient chief(worker(0, servers));
  { const ParameterClient other(worker(1, servers)); }
  dies.get();
  EXPECT_THAT(first.end(), HasSubstr("worker 1 ("));
  EXPECT_THAT(failure([&] { chief.pull(0, {}); }, ErrorKind::kPeerLost),
              AllOf(HasSubstr("parameter server 1 (" + servers[1]), HasSubstr("was lost")));
}

TEST(ParameterService, AbsentServersAreNamed) {
  ParameterClientOptions options = worker(0, {"127.0.0.1:1"});
  options.connect_timeout = milliseconds(200);
  EXPECT_THAT(failure([&] { ParameterClient client(options); }, ErrorKind::kPeerLost),
              AllOf(HasSubstr("parameter server 0: nothing answers at 127.0.0.1:1 within 0.2 s")));
}

TEST(ParameterService, ASignalToAServerReachesTheWorkersWithWhatTheyPull) {
  std::atomic<int> signal = 0;
  ParameterServiceOptions options = quick(2);
  options.stop_signal = [&] { return signal.load(); };
  Server first({0}, quick(2)), second({1}, options);
  const std::vector<std::string> servers{first.address(), second.address()};
  ParameterClient chief(worker(0, servers)), other(worker(1, servers));
  start(chief, {.step = 5});
  std::vector<double> values(2);
  EXPECT_EQ(other.pull(5, everything(other, values)).stop_signal, 0);
  signal = 15;
  while (second.log().find("a signal asks it to stop") == std::string::npos)
    std::this_thread::sleep_for(milliseconds(10));
  for (ParameterClient* client : {&chief, &other}) {
    const PulledState state = client->pull(5, everything(*client, values));
    EXPECT_EQ(state.stop_signal, 15);
    EXPECT_EQ(state.step, 5);
  }
  chief.leave();
  other.leave();
  EXPECT_EQ(first.end(), "ended");
  EXPECT_EQ(second.end(), "ended");
}

TEST(ParameterService, ASignalBeforeTheChiefComesEndsAServer) {
  ParameterServiceOptions options = quick(2, true);
  options.stop_signal = [] { return 15; };
  Server server({0}, options);
  EXPECT_EQ(server.end(), "stopped");
}

}  // namespace
}  // namespace mtf::parameter_run
