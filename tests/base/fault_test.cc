#include "engine/base/fault.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <new>
#include <string>

namespace mtf {
namespace {

/// Passes a place three times and returns what fault_point() returned, such as "0 28 0".
std::string told(const std::string& fault, std::string_view place) {
  ::setenv("MTF_FAULT", fault.c_str(), 1);
  std::string errors;
  for (int passing = 0; passing < 3; ++passing)
    errors += (errors.empty() ? "" : " ") + std::to_string(fault_point(place));
  ::unsetenv("MTF_FAULT");
  return errors;
}

TEST(FaultPoint, DoesNothingWithoutTheVariable) {
  ::unsetenv("MTF_FAULT");
  for (const std::string_view name : fault_points()) EXPECT_EQ(fault_point(name), 0);
}

TEST(FaultPoint, ReturnsTheErrorAtThePassingThatIsNamed) {
  const std::string disk_full = std::to_string(ENOSPC);
  EXPECT_EQ(told("checkpoint.write=ENOSPC", "checkpoint.write"), disk_full + " 0 0");
  EXPECT_EQ(told("checkpoint.write@2=ENOSPC", "checkpoint.write"), "0 " + disk_full + " 0");
  EXPECT_EQ(told("checkpoint.write@2=ENOSPC", "checkpoint.file"), "0 0 0");
}

TEST(FaultPoint, ThrowsBadAllocWhereThatIsNamed) {
  EXPECT_THROW(told("save.done=bad_alloc", "save.done"), std::bad_alloc);
  ::unsetenv("MTF_FAULT");
}

TEST(FaultPointDeathTest, KillsAtThePassingThatIsNamed) {
  EXPECT_EXIT(told("metrics.line@3", "metrics.line"), testing::KilledBySignal(SIGKILL), "");
}

TEST(FaultPointDeathTest, RefusesWhatMeansNothing) {
  EXPECT_DEATH(told("checkpoint.wirte", "save.done"),
               "^MTF_FAULT=checkpoint.wirte: places are checkpoint.begin, .*, resume.cut\n$");
  EXPECT_DEATH(told("save.done=EPERM", "save.done"),
               "errors are ENOSPC, EIO, EROFS, EACCES, EFBIG, EINVAL, bad_alloc\n$");
  EXPECT_DEATH(told("save.done@0", "save.done"), "after @ stands a number of at least 1\n$");
}

}  // namespace
}  // namespace mtf
