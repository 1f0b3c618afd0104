#include "engine/comm/process/pause_detector.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace mtf {
namespace {

constexpr Milliseconds kMinute(60'000);

TEST(PauseDetector, KnowsNothingOfAProcessThatRuns) {
  PauseDetector pauses;
  std::this_thread::sleep_for(Milliseconds(300));
  EXPECT_EQ(pauses.last(kMinute), Milliseconds(0));
}

/// Runs in a child process, which is stopped for 0.8 s.
int pauses_of_stopped_process() {
  PauseDetector pauses;
  const pid_t self = ::getpid();
  const pid_t waker = ::fork();
  if (waker == 0) {
    ::usleep(800'000);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
  const Milliseconds pause = pauses.last(kMinute);
  if (pause < Milliseconds(600)) return 1;
  std::this_thread::sleep_for(Milliseconds(300));
  if (pauses.last(kMinute) != pause) return 2;
  if (pauses.last(Milliseconds(100)) != Milliseconds(0)) return 3;
  ::waitpid(waker, nullptr, 0);
  return 0;
}

TEST(PauseDetectorDeathTest, TellsHowLongTheProcessWasStopped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(::_exit(pauses_of_stopped_process()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mtf
