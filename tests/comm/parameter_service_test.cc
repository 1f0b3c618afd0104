#include "engine/comm/parameters/parameter_service.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "engine/comm/parameters/parameter_client.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A storage of variables with one number each; an update subtracts the sum of the gradients.
class Numbers final : public ParameterStorage {
 public:
  explicit Numbers(std::vector<uint32_t> ids)
      : ids_(std::move(ids)), values_(ids_.size()), sums_(ids_.size()) {}

  std::span<std::byte> variable(uint32_t id) override {
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] == id) return std::as_writable_bytes(std::span(&values_[i], 1));
    }
    return {};
  }
  size_t gradients() const override { return ids_.size(); }
  std::vector<PushedPart> pushed_parts(int) const override {
    std::vector<PushedPart> parts;
    for (size_t i = 0; i < ids_.size(); ++i) parts.push_back({i, sizeof(double)});
    return parts;
  }
  void add(size_t gradient, std::span<const PushedTensors* const> workers) override {
    if (is_exhausted) throw std::bad_alloc();
    sums_[gradient] = 0;
    for (const PushedTensors* pushed : workers)
      sums_[gradient] += *reinterpret_cast<const double*>((*pushed)[gradient].data());
  }
  std::vector<double> squares() override {
    std::vector<double> squares;
    for (const double sum : sums_) squares.push_back(sum * sum);
    return squares;
  }
  Outcome update(int64_t, double rate_scale, double loss, std::span<const double> squares) override {
    double norm = 0;
    for (const double square : squares) norm += square;
    if (!std::isfinite(loss)) return {norm, false};
    for (size_t i = 0; i < ids_.size(); ++i) values_[i] -= rate_scale * sums_[i];
    return {norm, true};
  }
  double value(size_t i) const { return values_[i]; }

  std::atomic<bool> is_exhausted = false;  ///< there is no memory for sums

 private:
  std::vector<uint32_t> ids_;
  std::vector<double> values_, sums_;
};

/// A server that runs in a thread.
class Server {
 public:
  Server(std::vector<uint32_t> ids, ParameterServiceOptions options, const Access& access = {})
      : numbers(std::move(ids)) {
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    options.squares = 2;
    if (options.fields.empty()) options.fields = {{"program", "p"}, {"seed", "1"}};
    service_ = std::make_unique<ParameterService>(FramedListener({"127.0.0.1", 0}, access, kParameterPurpose),
                                                  numbers, std::move(options));
    end_ = std::async(std::launch::async, [this]() -> std::string {
      try {
        return service_->serve() ? "ended" : "stopped";
      } catch (const Error& error) {
        return error.what();
      }
    });
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", service_->port()); }
  int port() const { return service_->port(); }
  /// Returns how serve() ended: "ended", "stopped" (before the run), or its error.
  std::string end() { return end_.get(); }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  Numbers numbers;

 private:
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<ParameterService> service_;
  std::future<std::string> end_;
};

ParameterServiceOptions quick(int workers, bool asynchronous = false) {
  ParameterServiceOptions options;
  options.workers = workers;
  options.asynchronous = asynchronous;
  options.connect_timeout = options.collective_timeout = milliseconds(3000);
  return options;
}

ParameterClientOptions worker(int number, std::vector<std::string> servers) {
  return {.servers = std::move(servers),
          .worker = number,
          .fields = {{"program", "p"}, {"seed", "1"}},
          .connect_timeout = milliseconds(3000),
          .collective_timeout = milliseconds(3000)};
}

std::span<const std::byte> bytes_of(const double& value) { return std::as_bytes(std::span(&value, 1)); }

/// Runs one synchronous step of a worker, with servers that have one variable each.
void step(ParameterClient& client, bool chief, int64_t version, double gradient) {
  for (int server = 0; server < client.servers(); ++server)
    client.push(server, 0, version, bytes_of(gradient));
  if (!chief) return;
  std::vector<double> squares;
  for (const auto& of_server : client.squares(version))
    squares.insert(squares.end(), of_server.begin(), of_server.end());
  squares.resize(2);
  client.update({.step = version, .loss = 1, .tokens = 2}, squares);
}

void start(ParameterClient& client, const ParameterStart& at) {
  for (int server = 0; server < client.servers(); ++server)
    client.set(server, static_cast<uint32_t>(server), bytes_of(10.0 * (server + 1)));
  client.start(at);
}

std::vector<PulledVariable> everything(ParameterClient& client, std::vector<double>& values) {
  std::vector<PulledVariable> variables;
  for (int server = 0; server < client.servers(); ++server)
    variables.push_back(
        {server, static_cast<uint32_t>(server), std::as_writable_bytes(std::span(&values[server], 1))});
  return variables;
}

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
      for (const uint32_t id : ids) client.set(0, id, bytes_of(0));
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

/// Processes batches until the run has ended; returns their rows.
std::vector<int64_t> work(ParameterClient& client) {
  std::vector<int64_t> rows;
  for (;;) {
    const DealtBatch batch = client.next();
    if (batch.row < 0) break;
    const PulledState state = client.pull(0, {});
    for (int server = 0; server < client.servers(); ++server) client.push(server, 0, 0, bytes_of(1.0));
    client.commit({.step = state.step, .loss = 1, .tokens = 3}, std::vector<double>{1, 1});
    rows.push_back(batch.row);
  }
  return rows;
}

TEST(ParameterService, AsynchronousWorkersShareOutTheBatchesAndALostOnesBatchIsDealtAgain) {
  ParameterServiceOptions options = quick(3, true);
  options.batch_size = 10;
  options.max_staleness = 2;
  Server first({0}, options), second({1}, [&] {
    options.server = 1;
    return options;
  }());
  const std::vector<std::string> servers{first.address(), second.address()};
  ParameterClient chief(worker(0, servers));
  start(chief, {.step = 2, .next_row = 20, .last_step = 102});
  {
    ParameterClient lost(worker(2, servers));
    EXPECT_EQ(lost.next().row, 20);
  }
  ParameterClient other(worker(1, servers));
  auto others = std::async(std::launch::async, [&] {
    std::vector<int64_t> rows = work(other);
    other.leave();
    return rows;
  });
  std::vector<int64_t> rows = work(chief);
  for (const int64_t row : others.get()) rows.push_back(row);
  std::ranges::sort(rows);
  ASSERT_EQ(rows.size(), 100u);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(rows[i], 20 + 10 * i);
  const StalenessReport report = chief.staleness();
  EXPECT_LE(report.updates.size(), 3u);
  EXPECT_EQ(report.dealt_again, 1);
  std::vector<double> values(2);
  EXPECT_EQ(chief.pull(0, everything(chief, values)).tokens, 300);
  EXPECT_EQ(values, (std::vector<double>{-90, -80}));
  chief.leave();
  EXPECT_EQ(first.end(), "ended");
  EXPECT_EQ(second.end(), "ended");
  EXPECT_THAT(first.log(), HasSubstr("worker 2 (127.0.0.1:"));
}

TEST(ParameterService, AWorkerThatStopsIsGivenUpAndNotWhoWaitsForIt) {
  ParameterServiceOptions options = quick(2, true);
  options.collective_timeout = milliseconds(400);
  options.max_staleness = 1;
  Server server({0}, options);
  ParameterClient chief(worker(0, {server.address()})), stopped(worker(1, {server.address()}));
  start(chief, {.last_step = 4});
  EXPECT_EQ(stopped.next().row, 0);
  // The second update would be the second one since the other worker read the weights: it waits for that
  // worker.
  EXPECT_EQ(work(chief), (std::vector<int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(chief.staleness().dealt_again, 1);
  EXPECT_THAT(failure(
                  [&] {
                    stopped.push(0, 0, 0, bytes_of(1.0));
                    stopped.commit({}, std::vector<double>{1, 1});
                  },
                  ErrorKind::kPeerLost),
              AllOf(HasSubstr("worker 1 (127.0.0.1:"),
                    HasSubstr("has not finished its batch within 0.4 s and is given up")));
  chief.leave();
  EXPECT_EQ(server.end(), "ended");
}

/// A worker whose requests are sent one by one, so that it can die or stop between any two of them.
class StepwiseWorker {
 public:
  StepwiseWorker(int number, const std::vector<std::string>& servers) {
    const std::string hello =
        fmt::format(R"({{"worker": {}, "fields": [["program", "p"], ["seed", "1"]]}})", number);
    for (const std::string& address : servers) {
      sockets_.push_back(connect_framed({.address = address, .rank = number, .purpose = kParameterPurpose},
                                        milliseconds(3000), milliseconds(3000)));
      send(sockets_.size() - 1, ParameterOperation::kHello, std::as_bytes(std::span(hello)));
      answer(sockets_.size() - 1);
    }
  }
  void send(size_t server, ParameterOperation operation, std::span<const std::byte> bytes = {},
            int64_t version = 0) {
    sockets_[server].send(
        {.operation = static_cast<uint16_t>(operation), .version = static_cast<uint64_t>(version)}, bytes);
  }
  std::vector<std::byte> answer(size_t server) {
    const Frame frame = sockets_[server].receive(milliseconds(3000));
    EXPECT_NE(frame.operation, static_cast<uint16_t>(ParameterOperation::kError));
    std::vector<std::byte> bytes(frame.bytes);
    sockets_[server].receive_bytes(bytes);
    return bytes;
  }
  DealtBatch next() {
    send(0, ParameterOperation::kNext);
    std::memcpy(&batch_, answer(0).data(), sizeof(batch_));
    return batch_;
  }
  /// Pushes gradients of 1 to all servers; all but server 0 have them whole afterwards.
  void stage() {
    for (size_t server = 0; server < sockets_.size(); ++server)
      send(server, ParameterOperation::kPush, bytes_of(1));
    for (size_t server = 1; server < sockets_.size(); ++server) {
      send(server, ParameterOperation::kStage, update_, batch_.number);
      answer(server);
    }
  }
  void commit() {
    send(0, ParameterOperation::kCommit, update_);
    answer(0);
  }
  void apply() {
    const Decision decision{.step = batch_.step, .batch = batch_.number};
    send(1, ParameterOperation::kApply, std::as_bytes(std::span(&decision, 1)));
  }

 private:
  std::vector<FramedSocket> sockets_;
  DealtBatch batch_;
  std::vector<std::byte> update_ = std::vector<std::byte>(sizeof(ParameterStep) + 2 * sizeof(double));
};

/// Sends the update of a worker that has a batch.
Committed commit(ParameterClient& client, double loss) {
  const std::vector<double> squares{1, 1};
  client.push(0, 0, 0, bytes_of(1));
  return client.commit({.loss = loss, .tokens = 1}, squares);
}

ParameterServiceOptions one_batch_at_a_time(int server = 0) {
  ParameterServiceOptions options = quick(2, true);
  options.max_staleness = 0;
  options.server = server;
  return options;
}

TEST(ParameterService, AnUpdateThatServer0HasDecidedReachesTheOthersWithoutItsWorker) {
  for (const bool dies : {true, false}) {
    Server first({0}, one_batch_at_a_time()), second({1}, one_batch_at_a_time(1));
    const std::vector<std::string> servers{first.address(), second.address()};
    ParameterClient chief(worker(0, servers));
    start(chief, {.last_step = 3});
    std::optional<StepwiseWorker> other(std::in_place, 1, servers);
    EXPECT_EQ(other->next().row, 0);
    other->stage();
    other->commit();
    if (dies) other.reset();  // otherwise it is stopped for a while
    EXPECT_EQ(chief.next().row, 1);
    std::vector<double> values(2);
    chief.pull(0, everything(chief, values));
    EXPECT_EQ(values, (std::vector<double>{9, 19}));
    for (int server = 0; server < 2; ++server) chief.push(server, 0, 0, bytes_of(1.0));
    EXPECT_EQ(chief.commit({}, std::vector<double>{1, 1}).step, 1);
    if (!dies) other->apply();
    EXPECT_EQ(work(chief), (std::vector<int64_t>{2}));
    chief.pull(0, everything(chief, values));
    EXPECT_EQ(values, (std::vector<double>{7, 17}));
    EXPECT_EQ(chief.staleness().updates, (std::vector<int64_t>{3}));
    if (!dies) {
      EXPECT_EQ(other->next().row, -1) << "it goes on as if nothing had happened";
    }
  }
}

TEST(ParameterService, GradientsOfALostWorkerWithoutADecisionCountAtNoServer) {
  Server first({0}, one_batch_at_a_time()), second({1}, one_batch_at_a_time(1));
  const std::vector<std::string> servers{first.address(), second.address()};
  ParameterClient chief(worker(0, servers));
  start(chief, {.last_step = 4});
  {
    StepwiseWorker other(1, servers);
    EXPECT_EQ(other.next().row, 0);
    other.stage();
  }
  ParameterClient again(worker(1, servers));
  auto others = std::async(std::launch::async, [&] { return work(again); });
  std::vector<int64_t> rows = work(chief);
  for (const int64_t row : others.get()) rows.push_back(row);
  std::ranges::sort(rows);
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 1, 2, 3}));
  std::vector<double> values(2);
  chief.pull(0, everything(chief, values));
  EXPECT_EQ(values, (std::vector<double>{6, 16}));
  EXPECT_EQ(chief.staleness().dealt_again, 1);
}

TEST(ParameterService, AWorkerThatDiesWhileItWaitsForABatchMayComeAgain) {
  Server server({0}, one_batch_at_a_time());
  ParameterClient chief(worker(0, {server.address()}));
  start(chief, {});
  EXPECT_EQ(chief.next().row, 0);
  {
    StepwiseWorker other(1, {server.address()});
    other.send(0, ParameterOperation::kNext);
    std::this_thread::sleep_for(milliseconds(50));
  }
  ParameterClient again(worker(1, {server.address()}));
  auto batch = std::async(std::launch::async, [&] { return again.next(); });
  std::this_thread::sleep_for(milliseconds(50));
  commit(chief, 1);
  EXPECT_EQ(batch.get().row, 1);
}

TEST(ParameterService, TwoLivingProcessesCannotHaveTheSameTask) {
  Server server({0}, one_batch_at_a_time());
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  start(chief, {});
  EXPECT_EQ(other.next().row, 0);
  for (const int task : {0, 1}) {
    EXPECT_THAT(failure([&] { ParameterClient same(worker(task, {server.address()})); }, ErrorKind::kConfig),
                AllOf(HasSubstr(fmt::format("worker {} is here already, from 127.0.0.1:", task)),
                      HasSubstr("two processes have the same task")));
  }
  EXPECT_EQ(commit(other, 1).step, 0) << "the older one goes on";
  EXPECT_THAT(server.log(), HasSubstr("two processes have the same task"));
}

TEST(ParameterService, TheLossOfAChiefThatWaitsForABatchIsNoticedAtOnce) {
  Server server({0}, one_batch_at_a_time());
  {
    StepwiseWorker chief(0, {server.address()});
    chief.send(0, ParameterOperation::kSet, bytes_of(10));
    const ParameterStart start;
    chief.send(0, ParameterOperation::kStart, std::as_bytes(std::span(&start, 1)));
    chief.answer(0);
    ParameterClient slow(worker(1, {server.address()}));
    EXPECT_EQ(slow.next().row, 0);
    chief.send(0, ParameterOperation::kNext);
    std::this_thread::sleep_for(milliseconds(50));
    chief = StepwiseWorker(0, {});
    EXPECT_THAT(server.end(), HasSubstr("the chief, was lost"));
  }
  EXPECT_THAT(server.log(), Not(HasSubstr("given up")));
}

TEST(ParameterService, AnAsynchronousRunEndsWithItsChief) {
  Server server({0}, quick(2, true));
  ParameterClient other(worker(1, {server.address()}));
  {
    ParameterClient chief(worker(0, {server.address()}));
    start(chief, {});
    EXPECT_GE(other.next().row, 0);
  }
  EXPECT_THAT(failure(
                  [&] {
                    std::this_thread::sleep_for(milliseconds(100));
                    other.pull(0, {});
                  },
                  ErrorKind::kPeerLost),
              AllOf(HasSubstr("worker 0 ("), HasSubstr("the chief, was lost")));
}

TEST(ParameterService, AsynchronousWorkersDivergeTogetherAfterUpdatesInARowThatAreNotFinite) {
  ParameterServiceOptions options = quick(2, true);
  options.diverges_after = 3;
  Server server({0}, options);
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  start(chief, {});
  const double nan = std::nan("");
  for (const auto& [loss, skipped] : {std::pair(nan, 1), {nan, 2}, {0.5, 0}, {nan, 1}}) {
    chief.next();
    EXPECT_EQ(commit(chief, loss).skipped, skipped);
  }
  other.next();
  EXPECT_EQ(commit(other, nan).skipped, 2) << "whoever it is of";
  chief.next();
  other.next();
  EXPECT_EQ(commit(other, nan).skipped, 3);
  EXPECT_THAT(failure([&] { commit(chief, 1); }, ErrorKind::kDiverged),
              HasSubstr("step 6: the loss is nan and the norm of the gradients 2, at worker 1 (as in the 2 "
                        "updates before)"));
  EXPECT_THAT(failure([&] { other.next(); }, ErrorKind::kDiverged), HasSubstr("step 6"));
  EXPECT_THAT(server.end(), HasSubstr("step 6"));
}

TEST(ParameterService, WhoHasNoBatchAtTheEndLearnsTheLossOfTheLastUpdate) {
  Server server({0}, quick(2, true));
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  start(chief, {.last_step = 2});
  chief.next();
  other.next();
  commit(chief, 7);
  commit(other, 5);
  const DealtBatch end = chief.next();
  EXPECT_EQ(end.row, -1);
  EXPECT_EQ(end.step, 2);
  EXPECT_EQ(end.loss, 5);
  EXPECT_EQ(end.grad_norm, 2);
  EXPECT_EQ(chief.pause().loss, 5);
  chief.leave();
  other.leave();
  EXPECT_EQ(server.end(), "ended");
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

TEST(ParameterService, APauseWaitsForTheBatchesInHand) {
  Server server({0}, quick(2, true));
  ParameterClient chief(worker(0, {server.address()})), other(worker(1, {server.address()}));
  start(chief, {});
  ASSERT_EQ(other.next().row, 0);
  auto paused = std::async(std::launch::async, [&] { return chief.pause(); });
  EXPECT_EQ(paused.wait_for(milliseconds(100)), std::future_status::timeout);
  other.push(0, 0, 0, bytes_of(1.0));
  other.commit({}, std::vector<double>{1, 1});
  const DealtBatch at = paused.get();
  EXPECT_EQ(at.row, -1);
  EXPECT_EQ(at.step, 1);
  EXPECT_EQ(at.next_row, 1);
  chief.resume();
  EXPECT_EQ(other.next().row, 1);
}

}  // namespace
}  // namespace mtf
