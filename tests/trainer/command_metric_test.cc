#include "trainer/evaluation/command_metric.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/base/seconds_since.h"
#include "engine/base/signals.h"

namespace mtf {
namespace {

const PredictedTexts kTexts{{"in", "in"}, {"a b", "c"}, {{"a b", "d"}}};

bool go_on() { return true; }

std::optional<double> measured(const std::string& command, const std::function<bool()>& goes_on = go_on) {
  return run_command_metric({"mine", command}, kTexts, "dev", goes_on);
}

TEST(CommandMetrics, AreTheNumberInTheLastLine) {
  EXPECT_EQ(measured("echo lines; wc -l < {predictions}"), 2);
  EXPECT_EQ(measured("diff {predictions} {references} | grep -c '^<'; exit 0"), 1);
  EXPECT_EQ(measured("seq 100000"), 100000) << "more than a pipe holds";
  EXPECT_EQ(measured("wc -c"), 0) << "standard input is empty";
}

TEST(CommandMetrics, ThatFailSayHow) {
  for (const auto& [command, message] :
       {std::pair("echo 1; exit 3", "evaluate.datasets.dev.metrics: `echo 1; exit 3` ended with exit code 3"),
        std::pair("kill -9 $$", "was killed by signal 9 (SIGKILL)"), std::pair("echo nan", "no number"),
        std::pair("true", "no number")}) {
    try {
      measured(command);
      FAIL() << command;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

TEST(CommandMetrics, EndWithTheirProcessesWhenTheyShallNotGoOn) {
  const StopSignals signals;
  const std::string pipe = testing::TempDir() + "/command_metric_test.pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto start = std::chrono::steady_clock::now();
  // The shell's child holds the output open; neither ends by itself.
  EXPECT_EQ(measured("cat < " + pipe + " | cat", [] { return false; }), std::nullopt);
  EXPECT_THROW(
      measured("cat < " + pipe + " | cat", []() -> bool { throw Error(ErrorKind::kPeerLost, "lost"); }),
      Error);
  EXPECT_LT(seconds_since(start), 4) << "SIGTERM was enough";
  std::filesystem::remove(pipe);
}

}  // namespace
}  // namespace mtf
