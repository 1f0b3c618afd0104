#include "trainer/report/chrome_trace.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace mtf {
namespace {

using Json = nlohmann::json;

TEST(ChromeTrace, HasATrackForEachThreadAndTimesFromTheOrigin) {
  Profile profile;
  ProfileTrack* main = profile.track(kMainTrack);
  ProfileTrack* worker = profile.track("worker 1");
  profile.start();
  const ProfileLabel* step = profile.label("step", ProfileCategory::kStep);
  const ProfileLabel* einsum =
      profile.label("einsum \"quoted\"/layer", ProfileCategory::kCompute, "%1 = einsum(%x)");
  const int64_t begin = Profile::now();
  main->add(einsum, begin + 2'000, begin + 3'500, 4);
  main->add(step, begin, begin + 10'000, 12);
  worker->add(einsum, begin + 2'001, begin + 2'002);
  profile.stop();

  const std::string path = ::testing::TempDir() + "trace.json";
  const int64_t origin = system_nanoseconds() - 1'000'000'000;
  ASSERT_EQ(write_chrome_trace(path, profile, {.rank = 3, .name = "rank 3 (here)", .origin = origin}), 0);
  const Json events = Json::parse(std::ifstream(path)).at("traceEvents");
  ASSERT_EQ(events.size(), 6u);
  for (const Json& event : events) EXPECT_EQ(event.at("pid"), 3);
  EXPECT_EQ(events[0].at("args").at("name"), "rank 3 (here)");
  EXPECT_EQ(events[1].at("args").at("name"), kMainTrack);
  EXPECT_EQ(events[2].at("name"), "step") << "what contains others comes first";
  EXPECT_EQ(events[2].at("cat"), "step");
  EXPECT_EQ(events[2].at("args").at("step"), 12);
  EXPECT_EQ(events[2].at("dur"), 10.0);
  EXPECT_EQ(events[3].at("name"), "einsum \"quoted\"/layer");
  EXPECT_EQ(events[3].at("args").at("detail"), "%1 = einsum(%x)");
  EXPECT_EQ(events[3].at("args").at("part"), 4);
  EXPECT_EQ(events[3].at("tid"), events[2].at("tid"));
  EXPECT_NEAR(events[3].at("ts").get<double>() - events[2].at("ts").get<double>(), 2, 1e-6);
  EXPECT_NEAR(events[2].at("ts").get<double>(), 1e6, 1e5) << "microseconds from the origin";
  EXPECT_EQ(events[4].at("args").at("name"), "worker 1");
  EXPECT_NE(events[5].at("tid"), events[2].at("tid"));
  EXPECT_NEAR(events[5].at("dur").get<double>(), 0.001, 1e-9);
}

TEST(ChromeTrace, TellsTheSystemsErrorAndLeavesNothing) {
  EXPECT_EQ(write_chrome_trace("/nowhere/trace.json", Profile(), {}), ENOENT);
  const std::filesystem::path directory = ::testing::TempDir() + "traces";
  std::filesystem::create_directories(directory / "trace.json");
  EXPECT_EQ(write_chrome_trace(directory / "trace.json", Profile(), {}), EISDIR);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1) << "a part is left";
}

}  // namespace
}  // namespace mtf
