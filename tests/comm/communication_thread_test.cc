#include "engine/comm/process/communication_thread.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>

#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TestJob final : public CommunicationJob {
 public:
  explicit TestJob(std::function<void(uint64_t sequence)> action) : action_(std::move(action)) {}
  void run(uint64_t sequence) override { action_(sequence); }
  const std::string& name() const override { return name_; }
  int64_t bytes() const override { return 8; }

 private:
  std::function<void(uint64_t)> action_;
  const std::string name_ = "a job";
};

TEST(CommunicationThread, RunsJobsInTheOrderInWhichTheyWereStarted) {
  FlightRecord record(10);
  CommunicationThread thread(record);
  std::vector<uint64_t> order;
  TestJob job([&](uint64_t sequence) { order.push_back(sequence); });
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) last = thread.start(job);
  thread.wait(last);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  thread.wait(1);  // this job has ended long ago
}

TEST(CommunicationThread, QueuesAnyNumberWhileAJobRuns) {
  FlightRecord record(10);
  CommunicationThread thread(record);
  std::promise<void> go;
  TestJob first([&](uint64_t) { go.get_future().wait(); });
  int64_t sum = 0;
  TestJob later([&](uint64_t sequence) { sum += static_cast<int64_t>(sequence); });
  thread.start(first);
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) last = thread.start(later);
  EXPECT_EQ(record.current().has_value() ? record.current()->sequence : 1, 1u);
  go.set_value();
  thread.wait(last);
  EXPECT_EQ(last, 1001u);
  EXPECT_EQ(sum, 1001 * 1002 / 2 - 1);
}

TEST(CommunicationThread, AfterAFailureAllLaterJobsFailAlike) {
  FlightRecord record(10);
  CommunicationThread thread(record);
  bool later_ran = false;
  TestJob good([](uint64_t) {});
  TestJob bad([](uint64_t) { throw Error(ErrorKind::kPeerLost, "rank 2 was lost"); });
  TestJob later([&](uint64_t) { later_ran = true; });
  const uint64_t a = thread.start(good), b = thread.start(bad), c = thread.start(later);
  EXPECT_THAT(failure([&] { thread.wait(b); }, ErrorKind::kPeerLost), HasSubstr("rank 2 was lost"));
  EXPECT_THAT(failure([&] { thread.wait(c); }, ErrorKind::kPeerLost), HasSubstr("rank 2 was lost"));
  const uint64_t d = thread.start(later);
  EXPECT_THAT(failure([&] { thread.wait(d); }, ErrorKind::kPeerLost), HasSubstr("rank 2 was lost"));
  thread.wait(a);
  EXPECT_FALSE(later_ran);
  // The report of a failure shows where it happened.
  ASSERT_TRUE(record.current());
  EXPECT_EQ(record.current()->sequence, b);
}

TEST(CommunicationThread, DropsJobsThatHaveNotBegun) {
  FlightRecord record(10);
  std::promise<void> begun, go;
  TestJob first([&](uint64_t) {
    begun.set_value();
    go.get_future().wait();
  });
  std::atomic<bool> ran = false;
  TestJob second([&](uint64_t) { ran = true; });
  auto thread = std::make_unique<CommunicationThread>(record);
  thread->start(first);
  thread->start(second);
  begun.get_future().wait();
  std::thread end([&] { thread.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  go.set_value();
  end.join();
  EXPECT_FALSE(ran);
}

TEST(CommunicationThread, PreparesItsThreadOnce) {
  static std::atomic<int> prepared = 0;
  FlightRecord record(10);
  CommunicationThread thread(record, [] { ++prepared; });
  TestJob job([](uint64_t) {});
  thread.start(job);
  thread.wait(thread.start(job));
  EXPECT_EQ(prepared, 1);
}

}  // namespace
}  // namespace mtf
