#include "engine/comm/process/stall_meter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace mtf {
namespace {

constexpr Milliseconds kMinute(60'000);

TEST(StallMeter, KnowsNothingOfAProcessThatRuns) {
  StallMeter stalls;
  std::this_thread::sleep_for(Milliseconds(300));
  EXPECT_EQ(stalls.last(kMinute), Milliseconds(0));
}

/// In a process of its own, which is stopped for 0.8 s.
int stalls_of_stopped_process() {
  StallMeter stalls;
  const pid_t self = ::getpid();
  const pid_t waker = ::fork();
  if (waker == 0) {
    ::usleep(800'000);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
  const Milliseconds stall = stalls.last(kMinute);
  if (stall < Milliseconds(600)) return 1;
  std::this_thread::sleep_for(Milliseconds(300));
  if (stalls.last(kMinute) != stall) return 2;
  if (stalls.last(Milliseconds(100)) != Milliseconds(0)) return 3;
  ::waitpid(waker, nullptr, 0);
  return 0;
}

TEST(StallMeterDeathTest, TellsHowLongTheProcessWasStopped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(stalls_of_stopped_process()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mtf
