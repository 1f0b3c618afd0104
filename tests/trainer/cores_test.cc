// Tests the cores that `run.threads: auto` counts: the affinity mask of this process, and quotas in fake
// files.
#include "trainer/config/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/trainer/machine_files.h"

namespace mtf::testing {
namespace {

class CoresOfQuota : public MachineFiles {
 protected:
  std::optional<int> cores(int processes = 1) const { return cores_of_quota(processes, root_); }
  void mounted1() {
    write("proc/self/mountinfo",
          "34 25 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
          "35 25 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n");
  }
  void quota1(const std::string& group, int64_t quota, int64_t period) {
    write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us", std::to_string(quota) + "\n");
    write("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us", std::to_string(period) + "\n");
  }
  void parent_in(const std::string& line) { write("proc/" + std::to_string(getppid()) + "/cgroup", line); }
};

TEST_F(CoresOfQuota, AreNotLimitedWithoutControlGroups) { EXPECT_EQ(cores(), std::nullopt); }

TEST_F(CoresOfQuota, AreNotLimitedByAGroupWithoutAQuota) {
  mounted2();
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), std::nullopt);
  mounted1();
  write("proc/self/cgroup", "3:cpu,cpuacct:/job\n");
  quota1("/job", -1, 100000);
  EXPECT_EQ(cores(), std::nullopt);
}

TEST_F(CoresOfQuota, CountPartOfACoreAsOne) {
  mounted2();
  write("proc/self/cgroup", "0::/job\n");
  for (const auto& [quota, expected] :
       {std::pair("300000", 3), {"250000", 3}, {"200001", 3}, {"200000", 2}, {"100000", 1}, {"1000", 1}}) {
    write("sys/fs/cgroup/job/cpu.max", quota + std::string(" 100000\n"));
    EXPECT_EQ(cores(), expected) << quota;
  }
  write("sys/fs/cgroup/job/cpu.max", "9000000000000000 1000\n");
  EXPECT_EQ(cores(), 1'000'000'000);
}

TEST_F(CoresOfQuota, AreTheFewestOfAllGroupsAbove) {
  mounted2();
  write("proc/self/cgroup", "0::/user.slice/session/job\n");
  write("sys/fs/cgroup/user.slice/session/job/cpu.max", "800000 100000\n");
  write("sys/fs/cgroup/user.slice/session/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "100000 25000\n");
  EXPECT_EQ(cores(), 4);
}

TEST_F(CoresOfQuota, AreReadFromTheFilesOfVersion1) {
  mounted1();
  write("proc/self/cgroup", "5:memory:/other\n4:cpu,cpuacct:/jobs/one\n0::/\n");
  quota1("/jobs/one", 150000, 50000);
  quota1("/jobs", 400000, 50000);
  quota1("/other", 50000, 50000);
  EXPECT_EQ(cores(), 3);
}

TEST_F(CoresOfQuota, AreThoseOfAContainerWhoseMountShowsAPartOfTheTree) {
  mounted2("/docker/abc");
  write("proc/self/cgroup", "0::/docker/abc\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cores(), 2);
}

TEST_F(CoresOfQuota, AreSharedWithWhatTheParentProcessHasStartedInTheGroup) {
  mounted2();
  write("proc/self/cgroup", "0::/job/rank0\n");
  write("sys/fs/cgroup/job/rank0/cpu.max", "300000 100000\n");
  write("sys/fs/cgroup/job/cpu.max", "1600000 100000\n");
  parent_in("0::/job/launcher\n");
  EXPECT_EQ(cores(4), 3) << "the inner group is of this rank alone";
  EXPECT_EQ(cores(8), 2);
  EXPECT_EQ(cores(100), 1);
  parent_in("0::/job/rank0\n");
  EXPECT_EQ(cores(2), 1);
  parent_in("0::/job/rank01\n");
  EXPECT_EQ(cores(2), 3);
}

/// The test uses its own thread, whose mask ends with it.
TEST(CoresOfMask, AreThoseThatThisThreadMayUse) {
  std::thread([] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    EXPECT_EQ(cores_of_mask(), CPU_COUNT(&all));
    EXPECT_EQ(cores_of_mask(CPU_COUNT(&all)), 1) << "shared by as many processes as there are cores";
    EXPECT_EQ(cores_of_mask(10 * CPU_COUNT(&all)), 1);
    int core = 0;
    while (!CPU_ISSET(core, &all)) ++core;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(cores_of_mask(), 1);
    EXPECT_EQ(usable_cores(), 1);
  }).join();
}

}  // namespace
}  // namespace mtf::testing
