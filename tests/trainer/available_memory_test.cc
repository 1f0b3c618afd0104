// Tests the reader of /proc and of control groups on fake files.
#include <gtest/gtest.h>

#include <string>

#include "tests/trainer/machine_files.h"
#include "trainer/memory/available.h"

namespace mtf::testing {
namespace {

constexpr int64_t kMB = 1'000'000;

class AvailableMemory : public MachineFiles {
 protected:
  AvailableMemory() {
    write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    8000000 kB\n");
    write("proc/self/status", "Name:\tmtf-train\nRssAnon:\t    1000 kB\nRssFile:\t 7000 kB\n");
  }

  /// Writes a group of version 2.
  void group2(const std::string& path, const std::string& limit, int64_t current, int64_t inactive_file) {
    write(path + "/memory.max", limit + "\n");
    write(path + "/memory.current", std::to_string(current) + "\n");
    write(path + "/memory.stat", "anon 1\nfile 2\ninactive_file " + std::to_string(inactive_file) + "\n");
  }
  void group1(const std::string& path, int64_t limit, int64_t usage, int64_t inactive_file) {
    write(path + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(path + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    write(path + "/memory.stat",
          "inactive_file 5\ntotal_inactive_file " + std::to_string(inactive_file) + "\n");
  }
  MemoryLimit limit(int processes = 1) const { return available_memory(processes, root_); }

  const int64_t own_ = 1000 * 1024;  ///< memory that the process already has
};

TEST_F(AvailableMemory, IsThatOfTheMachineWithoutControlGroups) {
  EXPECT_EQ(limit().bytes, int64_t{8000000} * 1024 + own_);
  EXPECT_EQ(limit().source, "free memory of the machine");
}

TEST_F(AvailableMemory, IsSharedByTheProcessesOfARun) {
  EXPECT_EQ(limit(4).bytes, int64_t{2000000} * 1024 + own_);
  EXPECT_EQ(limit(4).source, "free memory of the machine, shared by 4 processes");
}

TEST_F(AvailableMemory, IsWhatTheControlGroupHasLeft) {
  mounted2();
  write("proc/self/cgroup", "0::/user.slice/job\n");
  group2("sys/fs/cgroup/user.slice/job", "500000000", 200 * kMB, 0);
  EXPECT_EQ(limit().bytes, 300 * kMB + own_);
  EXPECT_EQ(limit().source, "control group /sys/fs/cgroup/user.slice/job");
}

TEST_F(AvailableMemory, CountsInactivePageCacheAsFree) {
  mounted2();
  write("proc/self/cgroup", "0::/job\n");
  group2("sys/fs/cgroup/job", "500000000", 450 * kMB, 300 * kMB);
  EXPECT_EQ(limit().bytes, 350 * kMB + own_);
}

TEST_F(AvailableMemory, IsTheLeastOfAllGroupsAbove) {
  mounted2();
  write("proc/self/cgroup", "0::/user.slice/session/job\n");
  group2("sys/fs/cgroup/user.slice/session/job", "max", 50 * kMB, 0);
  group2("sys/fs/cgroup/user.slice/session", "900000000", 100 * kMB, 0);
  group2("sys/fs/cgroup/user.slice", "700000000", 600 * kMB, 0);
  EXPECT_EQ(limit().bytes, 100 * kMB + own_);
  EXPECT_EQ(limit().source, "control group /sys/fs/cgroup/user.slice");
}

TEST_F(AvailableMemory, IsNotMoreThanTheMachineHas) {
  mounted2();
  write("proc/self/cgroup", "0::/job\n");
  group2("sys/fs/cgroup/job", "900000000000", 0, 0);
  EXPECT_EQ(limit().source, "free memory of the machine");
}

TEST_F(AvailableMemory, IsNotLimitedByWhatIsNoNumber) {
  mounted2();
  write("proc/self/cgroup", "0::/job\n");
  group2("sys/fs/cgroup/job", "500000000x", 0, 0);
  EXPECT_EQ(limit().source, "free memory of the machine");
}

TEST_F(AvailableMemory, OfAFullGroupIsWhatTheProcessHasAlready) {
  mounted2();
  write("proc/self/cgroup", "0::/job\n");
  group2("sys/fs/cgroup/job", "100000000", 120 * kMB, 0);
  EXPECT_EQ(limit().bytes, own_);
}

TEST_F(AvailableMemory, KnowsTheFilesOfVersion1) {
  write("proc/self/mountinfo",
        "34 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 25 0:30 / /sys/fs/cgroup/memory rw shared:15 - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "5:cpu:/other\n4:memory:/jobs/one\n0::/\n");
  group1("sys/fs/cgroup/memory/jobs/one", 800 * kMB, 300 * kMB, 100 * kMB);
  group1("sys/fs/cgroup/memory/jobs", 9223372036854771712, 900 * kMB, 0);  // no limit
  EXPECT_EQ(limit().bytes, 600 * kMB + own_);
  EXPECT_EQ(limit().source, "control group /sys/fs/cgroup/memory/jobs/one");
}

TEST_F(AvailableMemory, FindsTheGroupOfAContainerWhoseMountShowsAPartOfTheTree) {
  mounted2("/docker/abc");
  write("proc/self/cgroup", "0::/docker/abc/inner\n");
  group2("sys/fs/cgroup", "400000000", 100 * kMB, 0);
  group2("sys/fs/cgroup/inner", "350000000", 0, 0);
  EXPECT_EQ(limit().bytes, 300 * kMB + own_);
  EXPECT_EQ(limit().source, "control group /sys/fs/cgroup");
  // The process is outside the mounted groups: their top counts.
  write("proc/self/cgroup", "0::/../somewhere\n");
  EXPECT_EQ(limit().bytes, 300 * kMB + own_);
}

TEST(AvailableMemoryHere, IsSaidWithItsSource) {
  const MemoryLimit limit = available_memory();
  EXPECT_GT(limit.bytes, kMB);
  EXPECT_LT(limit.bytes, int64_t{1} << 60);
  EXPECT_FALSE(limit.source.empty());
}

}  // namespace
}  // namespace mtf::testing
