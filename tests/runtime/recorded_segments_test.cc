#include "engine/runtime/recorded_segments.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace mtf {
namespace {

/// A device that counts what it is asked for.
class CountingBackend final : public Backend {
 public:
  std::unique_ptr<DeviceMemory> allocate(int64_t) override { return nullptr; }
  std::unique_ptr<Kernel> prepare(const KernelContext&) override { return nullptr; }
  std::unique_ptr<Kernel> prepare(const Move&) override { return nullptr; }
  std::unique_ptr<PreparedCollective> prepare(const Collective&) override { return nullptr; }
  std::string instruction_set() const override { return "counting"; }
  bool is_host() const override { return false; }
  void write(std::byte*, const std::byte*, int64_t) override {}
  void read(std::byte*, const std::byte*, int64_t) override {}
  void copy(std::byte*, const std::byte*, int64_t) override {}
  void copy_blocks(std::span<const BlockCopy>) override {}
  std::unique_ptr<BlockTransfer> make_block_transfer(std::byte*, int64_t) override { return nullptr; }
  std::unique_ptr<HostCopy> make_host_copy(CopySources, CopyOrder) override { return nullptr; }
  Submission submission() const override { return mode; }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    ++records;
    enqueue();
    if (!can_record) return nullptr;
    return std::make_unique<CountingRecording>(replays);
  }

  Submission mode = Submission::kRecorded;
  bool can_record = true;
  int records = 0, replays = 0;

 private:
  class CountingRecording final : public Recording {
   public:
    explicit CountingRecording(int& replays) : replays_(replays) {}
    void replay() override { ++replays_; }
    int64_t nodes() const override { return 1; }

   private:
    int& replays_;
  };
};

/// The communicator of one of two processes with a GPU each. The other one answers each gather with `answer`.
class TwoProcesses final : public InProcessCommunicator {
 public:
  int processes() const override { return 2; }
  bool is_on_device() const override { return true; }
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string&) override {
    auto gather = std::make_unique<Gather>();
    gather->all = {std::move(bytes), gathers++ < answers_yes ? "yes" : "no"};
    return gather;
  }

  int answers_yes = 2;
  int gathers = 0;

 private:
  struct Gather final : PendingGather {
    std::vector<std::string> wait() override { return all; }
    std::vector<std::string> all;
  };
};

/// Runs a program of one segment four times. Returns how often it was enqueued, and expects the work of one run in each.
int enqueued_in_four_runs(CountingBackend& backend, Communicator& communicator) {
  const std::vector<PreparedSegment> segments(1);
  RecordedSegments recorded(backend, communicator, segments);
  int enqueued = 0;
  for (int run = 0; run < 4; ++run) {
    Work work;
    recorded.run(
        [&](std::span<const PreparedSegment>) {
          ++enqueued;
          work.flops += 3;
        },
        work);
    EXPECT_EQ(work.flops, 3) << "run " << run;
  }
  return enqueued;
}

TEST(RecordedSegments, AreRecordedInTheSecondRun) {
  CountingBackend backend;
  InProcessCommunicator alone;
  TwoProcesses both;
  EXPECT_EQ(enqueued_in_four_runs(backend, alone), 2);
  EXPECT_EQ(backend.records, 1);
  EXPECT_EQ(backend.replays, 3);
  EXPECT_EQ(enqueued_in_four_runs(backend, both), 2);
  EXPECT_EQ(both.gathers, 2);
}

TEST(RecordedSegments, AreEnqueuedWhereTheDeviceDoesNotRecord) {
  InProcessCommunicator alone;
  for (const Submission mode : {Submission::kEager, Submission::kAwaited}) {
    CountingBackend backend;
    backend.mode = mode;
    EXPECT_EQ(enqueued_in_four_runs(backend, alone), 4);
    EXPECT_EQ(backend.records, 0);
  }
}

TEST(RecordedSegments, AreEnqueuedAfterARecordingThatFailed) {
  CountingBackend backend;
  backend.can_record = false;
  InProcessCommunicator alone;
  EXPECT_EQ(enqueued_in_four_runs(backend, alone), 5);  // once in the recording
  EXPECT_EQ(backend.records, 1);
  EXPECT_EQ(backend.replays, 0);
}

TEST(RecordedSegments, AreRecordedInAllProcessesOrInNone) {
  CountingBackend backend;
  TwoProcesses other_does_not_record, other_has_failed;
  other_does_not_record.answers_yes = 0;
  EXPECT_EQ(enqueued_in_four_runs(backend, other_does_not_record), 4);
  EXPECT_EQ(backend.records, 0);
  other_has_failed.answers_yes = 1;
  EXPECT_EQ(enqueued_in_four_runs(backend, other_has_failed), 5);
  EXPECT_EQ(backend.records, 1);
  EXPECT_EQ(backend.replays, 0);
}

}  // namespace
}  // namespace mtf
