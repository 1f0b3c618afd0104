#include "engine/comm/process/watchdog.h"

#include <gmock/gmock.h>

#include "engine/comm/rendezvous/failure_report.h"
#include "tests/support/memory_store.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<std::string> kWatchedPeers = {
    "rank 0 (node-a, process 810)", "rank 1 (node-a, process 811)", "rank 2 (node-b, process 812)"};

/// The lines that a watchdog has logged.
class LoggedLines {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    added_.notify_all();
  }
  /// Returns the first `count` lines as soon as there are that many.
  std::vector<std::string> first(size_t count) {
    std::unique_lock lock(mutex_);
    added_.wait_for(lock, std::chrono::seconds(60), [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::string> lines_;
};

/// A process that waits in a collective.
struct WaitingProcess {
  WaitingProcess(Store& store, int rank, Milliseconds timeout, uint64_t sequence, const std::string& name,
                 int64_t bytes, int peer)
      : watchdog(record, store, rank, kWatchedPeers, timeout,
                 [this](const std::string& line) { lines.add(line); }) {
    record.queued(sequence, name, bytes);
    record.begun(sequence);
    record.waits(peer);
  }

  LoggedLines lines;
  FlightRecord record{100};
  Watchdog watchdog;
};

TEST(Watchdog, SaysWhoWaitsForWhomInWhichCollective) {
  MemoryStore store;
  WaitingProcess process(store, 0, Milliseconds(200), 17, "all_reduce w over data", 4'200'000, 2);
  const std::vector<std::string> lines = process.lines.first(2);
  ASSERT_GE(lines.size(), 2u);
  for (const std::string& line : lines)
    EXPECT_THAT(line, AllOf(StartsWith("rank 0 (node-a, process 810) waits 0."),
                            HasSubstr(" s for rank 2 (node-b, process 812) in all_reduce w over data "
                                      "(collective 17, 4.2 MB)")));
  const auto wait = read_wait(store, 0);
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->sequence, 17u);
  EXPECT_EQ(wait->peer, 2);
}

TEST(Watchdog, NamesProcessesThatDoNotRunTheSameProgram) {
  MemoryStore store;
  WaitingProcess zero(store, 0, Milliseconds(200), 17, "all_reduce a over rows", 200, 1);
  WaitingProcess one(store, 1, Milliseconds(200), 17, "all_reduce b over rows", 400, 0);
  EXPECT_THAT(
      zero.lines.first(3),
      ::testing::Contains(AllOf(HasSubstr("rank 1 (node-a, process 811) is in collective 17 all_reduce "
                                          "b over rows (400 bytes)"),
                                HasSubstr("rank 0 (node-a, process 810) in collective 17 all_reduce a "
                                          "over rows (200 bytes): the processes do not run the same "
                                          "program"))));
}

TEST(Watchdog, ForgetsAWaitThatHasEnded) {
  MemoryStore store;
  WaitingProcess process(store, 0, Milliseconds(100), 1, "all_gather x over cols", 8, 1);
  process.lines.first(1);
  process.record.ended(1);
  for (int i = 0; i < 1000 && read_wait(store, 0); ++i) std::this_thread::sleep_for(Milliseconds(10));
  EXPECT_FALSE(read_wait(store, 0));
}

TEST(Watchdog, EndsAtOnce) {
  MemoryStore store;
  FlightRecord record(10);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i)
    Watchdog(record, store, 0, kWatchedPeers, std::chrono::minutes(10), [](const std::string&) {});
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST(Disagreement, OfWaitsIsOnlyWhatNoCorrectRunCanShow) {
  const PublishedWait zero{17, "all_reduce a over rows", 200, 1};
  // Rank 1 is behind, and waits for a third rank.
  EXPECT_FALSE(disagreement("r1", 1, {12, "all_gather b over cols", 100, 2}, "r0", 0, zero));
  // Both are in the same collective, with uneven shares; rank 1 waits for a third rank.
  EXPECT_FALSE(disagreement("r1", 1, {17, "all_reduce a over rows", 204, 2}, "r0", 0, zero));
  // Both wait for each other.
  EXPECT_FALSE(disagreement("r1", 1, {17, "all_reduce a over rows", 200, 0}, "r0", 0, zero));
  EXPECT_TRUE(disagreement("r1", 1, {17, "all_reduce a over rows", 400, 0}, "r0", 0, zero));
  EXPECT_TRUE(disagreement("r1", 1, {16, "all_reduce a over rows", 200, 0}, "r0", 0, zero));
  EXPECT_TRUE(disagreement("r1", 1, {17, "all_reduce b over rows", 200, 2}, "r0", 0, zero));
}

Error lost_peer(const std::string& text) { return Error(ErrorKind::kPeerLost, text); }

std::string cause_for_rank_0(Store& store, const Error& own) {
  return root_cause(store, 0, kWatchedPeers, own, Milliseconds(100));
}

TEST(RootCause, OfAnErrorOfOnesOwnIsTheErrorItself) {
  MemoryStore store;
  EXPECT_THAT(cause_for_rank_0(store, Error(ErrorKind::kData, "images.idx: 3 bytes are missing")),
              HasSubstr("3 bytes are missing"));
}

TEST(RootCause, IsTheFirstFailureThatIsNoConsequence) {
  MemoryStore store;
  publish(store, 1, lost_peer(lost_connection_text(kWatchedPeers[2], "", "Connection closed by peer")));
  publish(store, 2, Error(ErrorKind::kDiverged, "the loss is not a number"));
  EXPECT_THAT(cause_for_rank_0(
                  store, lost_peer(lost_connection_text(kWatchedPeers[1], "", "Connection closed by peer"))),
              AllOf(StartsWith(kWatchedPeers[2] + " failed first: "), HasSubstr("the loss is not a number")));
}

TEST(RootCause, IsTheProcessThatEndedWithoutAWord) {
  MemoryStore store;
  // Rank 1 has noticed the loss before, and has ended.
  publish(store, 1, lost_peer(lost_connection_text(kWatchedPeers[2], " in a", "Connection closed by peer")));
  EXPECT_THAT(
      cause_for_rank_0(store, lost_peer(lost_connection_text(kWatchedPeers[1], " in a", "reset by peer"))),
      StartsWith(kWatchedPeers[2] + " was lost: its process ended without a word"));
}

TEST(RootCause, IsTheProcessThatDoesNotAnswerAndWaitsForNobody) {
  MemoryStore store;
  const Milliseconds timeout(5000);
  publish_wait(store, 0, PublishedWait{17, "all_reduce a over rows", 200, 1});
  publish_wait(store, 1, PublishedWait{17, "all_reduce a over rows", 200, 2});
  EXPECT_THAT(
      cause_for_rank_0(store, lost_peer(no_answer_text(kWatchedPeers[1], false, timeout, " in a"))),
      StartsWith(kWatchedPeers[2] + " does not answer: stopped, hanging, or cut off from the network"));
  // Rank 1 was the first to time out, and has closed its connections.
  publish(store, 1, lost_peer(no_answer_text(kWatchedPeers[2], false, timeout, " in a")));
  EXPECT_THAT(cause_for_rank_0(store, lost_peer(lost_connection_text(kWatchedPeers[1], " in a", "closed"))),
              StartsWith(kWatchedPeers[2] + " does not answer"));
}

TEST(RootCause, IsADisagreementOfThoseThatWaitForEachOther) {
  MemoryStore store;
  publish_wait(store, 0, PublishedWait{17, "all_reduce a over rows", 200, 1});
  publish_wait(store, 1, PublishedWait{17, "all_reduce b over rows", 400, 0});
  EXPECT_THAT(cause_for_rank_0(
                  store, lost_peer(no_answer_text(kWatchedPeers[1], false, Milliseconds(5000), " in a"))),
              HasSubstr("do not run the same program"));
}

/// A store whose server is gone.
class UnreachableStore final : public Store {
 public:
  void set(const std::string&, const std::string&) override { gone(); }
  std::optional<std::string> get(const std::string&, Milliseconds) override { gone(); }
  int64_t add(const std::string&, int64_t) override { gone(); }

 private:
  [[noreturn]] static void gone() { throw lost_peer("the store at 10.0.0.1:29500 cannot be reached"); }
};

TEST(RootCause, WithoutAStoreIsProcess0) {
  UnreachableStore store;
  EXPECT_THAT(root_cause(store, 1, kWatchedPeers,
                         lost_peer(lost_connection_text(kWatchedPeers[0], "", "closed")), Milliseconds(10)),
              StartsWith(kWatchedPeers[0] + " was lost: its process ended without a word"));
  EXPECT_THAT(root_cause(store, 1, kWatchedPeers,
                         lost_peer(lost_connection_text(kWatchedPeers[2], "", "closed")), Milliseconds(10)),
              AllOf(HasSubstr(kWatchedPeers[2]),
                    HasSubstr("process 0, or the launcher that serves the store, is gone")));
}

}  // namespace
}  // namespace mtf
