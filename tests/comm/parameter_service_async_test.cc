#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "engine/comm/parameters/parameter_client.h"
#include "engine/comm/parameters/parameter_service.h"
#include "tests/support/failure.h"
#include "tests/support/parameter_run.h"

namespace mtf::parameter_run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
              HasSubstr("step 6: the loss is NaN and the norm of the gradients 2, at worker 1 (as in the 2 "
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
}  // namespace mtf::parameter_run
