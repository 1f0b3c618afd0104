// A fixture that writes fake files of /proc and of control groups.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mtf::testing {

class MachineFiles : public ::testing::Test {
 protected:
  MachineFiles()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
  }
  ~MachineFiles() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  /// Mounts control groups of version 2. `root` is the group at the top of the mount.
  void mounted2(const std::string& root = "/") {
    write("proc/self/mountinfo", "21 28 0:19 / /proc rw,relatime shared:12 - proc proc rw\n30 23 0:26 " +
                                     root +
                                     " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  std::filesystem::path root_;
};

}  // namespace mtf::testing
