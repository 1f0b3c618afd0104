#include "engine/base/core_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "engine/base/seconds_since.h"

namespace mtf {
namespace {

TEST(CoreWaits, AnotherProgramOnTheSameCoreIsNoticed) {
  cpu_set_t before, first;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&first);
  for (int core = 0; CPU_COUNT(&first) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &first);
  ASSERT_EQ(::sched_setaffinity(0, sizeof first, &first), 0);
  const CoreWaits waits;
  const pid_t other = ::fork();
  if (other == 0) {
    while (true) {
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  while (seconds_since(begin) < 0.3) {
  }
  EXPECT_GT(waits.of_threads(), 0.03);
  EXPECT_GE(waits.of_cores(), 0);
  EXPECT_THAT(waits.description(), testing::StartsWith("other programs had cores of this one for 0."));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace mtf
