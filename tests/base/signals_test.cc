#include "engine/base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace mtf {
namespace {

TEST(StopSignals, AreRememberedWhileOneLooksForThem) {
  const StopSignals signals;
  EXPECT_EQ(StopSignals::received(), 0);
  ::raise(SIGTERM);
  EXPECT_EQ(StopSignals::received(), SIGTERM);
}

TEST(StopSignals, ThatComeTwiceAtOnceAreOne) {
  const StopSignals signals;
  ::raise(SIGTERM);
  ::raise(SIGTERM);
  ::raise(SIGINT);
  EXPECT_EQ(StopSignals::received(), SIGTERM);
}

TEST(StopSignals, AHangUpIsOneUnlessItWasIgnored) {
  {
    const StopSignals signals;
    ::raise(SIGHUP);
    EXPECT_EQ(StopSignals::received(), SIGHUP);
    EXPECT_EQ(signal_name(SIGHUP), "SIGHUP");
  }
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  {
    const StopSignals signals;
    ::raise(SIGHUP);
    EXPECT_EQ(StopSignals::received(), 0);
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(StopSignals, OfAnotherProcessDoNotMakeTheFirstOneHereASecond) {
  const StopSignals signals;
  StopSignals::receive(SIGINT);
  ::raise(SIGTERM);
  EXPECT_EQ(StopSignals::received(), SIGINT);
}

TEST(StopSignalsDeathTest, ThatComeAgainLaterEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stop_twice = [] {
    const StopSignals signals;
    ::raise(SIGTERM);
    ::usleep(2'100'000);
    ::raise(SIGTERM);
  };
  EXPECT_EXIT(stop_twice(), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace mtf
