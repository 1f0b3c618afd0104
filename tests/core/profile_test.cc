#include "engine/core/profile.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

namespace mtf {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names(const ProfileTrack& track) {
  std::vector<std::string> result;
  for (const ProfileTrack::Span& span : track.spans()) result.push_back(span.label->name);
  return result;
}

TEST(Profile, SpansAreKeptBetweenStartAndStop) {
  Profile profile;
  ProfileTrack* track = profile.track("main");
  const auto pass = [&](const char* name) {
    const ProfileSpan span = span_on(&profile, "main", name, ProfileCategory::kData, 7);
  };
  pass("before");
  profile.start();
  {
    const ProfileSpan outer = span_on(&profile, "main", "outer", ProfileCategory::kStep);
    pass("inner");
  }
  profile.stop();
  pass("after");
  EXPECT_THAT(names(*track), ElementsAre("inner", "outer"));
  const auto inner = track->spans()[0], outer = track->spans()[1];
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
  EXPECT_EQ(inner.part, 7);
  EXPECT_EQ(outer.part, -1);
  EXPECT_EQ(outer.label->category, ProfileCategory::kStep);
}

TEST(Profile, WithoutOneSpansAreNothing) {
  const ProfileSpan none = span_on(nullptr, "main", "step", ProfileCategory::kStep);
  const ProfileSpan no_track(nullptr, nullptr);
  Profile profile;
  profile.start();
  { const ProfileSpan no_label(profile.track("main"), nullptr); }
  EXPECT_TRUE(profile.track("main")->spans().empty());
}

TEST(Profile, TracksAndLabelsAreFoundAgain) {
  Profile profile;
  EXPECT_EQ(profile.track("a"), profile.track("a"));
  EXPECT_NE(profile.track("a"), profile.track("b"));
  const ProfileLabel* label = profile.label("einsum", ProfileCategory::kCompute, "%1 = einsum(%x)");
  EXPECT_EQ(profile.label("einsum", ProfileCategory::kCompute, "%1 = einsum(%x)"), label);
  EXPECT_NE(profile.label("einsum", ProfileCategory::kCompute), label);
  EXPECT_NE(profile.label("einsum", ProfileCategory::kData, "%1 = einsum(%x)"), label);
  EXPECT_EQ(profile.tracks().size(), 2u);
}

TEST(Profile, AFullTrackCountsWhatItDrops) {
  Profile profile(3);
  profile.start();
  for (int i = 0; i < 5; ++i)
    const ProfileSpan span = span_on(&profile, "main", "step", ProfileCategory::kStep, i);
  const ProfileTrack& track = *profile.track("main");
  EXPECT_EQ(track.spans().size(), 3u);
  EXPECT_EQ(track.spans().back().part, 2);
  EXPECT_EQ(track.dropped(), 2);
}

TEST(Profile, ThreadsHaveTracksOfTheirOwn) {
  Profile profile;
  profile.start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&profile, name = "worker " + std::to_string(t)] {
      for (int i = 0; i < 1000; ++i)
        const ProfileSpan span = span_on(&profile, name, name, ProfileCategory::kCompute);
    });
  }
  for (std::thread& thread : threads) thread.join();
  profile.stop();
  EXPECT_EQ(profile.tracks().size(), 4u);
  for (const ProfileTrack* track : profile.tracks()) {
    EXPECT_EQ(track->spans().size(), 1000u);
    for (const auto& span : track->spans()) EXPECT_EQ(span.label->name, track->name());
  }
}

TEST(Profile, ObserversHearOfSpansAsTheyHappen) {
  struct Observer final : ProfileObserver {
    std::vector<std::string> heard;
    void start() override { heard.push_back("start"); }
    void stop() override { heard.push_back("stop"); }
    void begin(const ProfileLabel& label) override { heard.push_back(label.name); }
    void end() override { heard.push_back("end"); }
  } observer;
  Profile profile;
  profile.set_observer(&observer);
  profile.start();
  {
    const ProfileSpan outer = span_on(&profile, "main", "outer", ProfileCategory::kStep);
    const ProfileSpan inner = span_on(&profile, "main", "inner", ProfileCategory::kStep);
  }
  profile.stop();
  EXPECT_THAT(observer.heard, ElementsAre("start", "outer", "inner", "end", "end", "stop"));
}

}  // namespace
}  // namespace mtf
