#include "engine/runtime/arena_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace mtf::testing {
namespace {

bool overlap(const Region& a, const Region& b) { return a.begin <= b.end && b.begin <= a.end; }

/// The lowest offset that is free during the region's lifetime, found by examining all placed regions.
int64_t lowest_free(const Region& region, const std::vector<Region>& placed) {
  std::vector<Region> others;
  std::ranges::copy_if(placed, std::back_inserter(others),
                       [&](const Region& other) { return overlap(region, other); });
  std::ranges::sort(others, {}, &Region::offset);
  int64_t offset = 0;
  for (const Region& other : others) {
    if (offset + region.bytes <= other.offset) break;
    offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

/// Few sizes and many moments, or the other way round, with nested lifetimes as in backward passes. Some have many more moments
/// than regions, so that short lifetimes differ from long ones.
std::vector<Region> random_regions(std::mt19937& random, int64_t count) {
  const auto below = [&random](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  const int64_t moments = 1 + below(below(2) == 0 ? 60 : 60'000), sizes = 1 + below(8);
  std::vector<Region> regions;
  for (int64_t id = 0; id < count; ++id) {
    const int64_t begin = below(moments);
    const int64_t longest = below(2) == 0 ? moments : 100;
    const int64_t end = below(3) == 0 ? std::max(begin, moments - 1 - begin)
                                      : begin + below(std::min(longest, moments - begin));
    regions.push_back({.id = id, .bytes = 64 * below(sizes + 1), .begin = begin, .end = end});
  }
  return regions;
}

/// Places the regions and compares with a search among all.
void expect_lowest_places(std::vector<Region> regions) {
  const int64_t bytes = place(regions);
  std::vector<Region> placed;
  int64_t most = 0;
  for (const Region& region : regions) {
    ASSERT_EQ(region.offset, lowest_free(region, placed)) << "region " << region.id;
    if (!placed.empty()) {
      ASSERT_GE(placed.back().bytes, region.bytes);
    }
    placed.push_back(region);
    most = std::max(most, region.offset + region.bytes);
  }
  EXPECT_EQ(bytes, most);
}

TEST(ArenaLayout, EveryRegionHasTheLowestPlaceThatIsFree) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    expect_lowest_places(random_regions(random, 1 + trial % (trial % 10 == 0 ? 400 : 50)));
  }
}

TEST(ArenaLayout, OfManyShortLifetimesAtATime) {
  std::mt19937 random(6);
  std::vector<Region> regions = random_regions(random, 800);
  for (Region& region : regions)
    region = {region.id, region.bytes, region.begin % 10, region.begin % 10 + region.end % 10};
  regions.push_back({.id = 800, .bytes = 64, .begin = 1'000'000, .end = 1'000'000});
  expect_lowest_places(regions);
}

TEST(ArenaLayout, OfNothing) {
  std::vector<Region> none;
  EXPECT_EQ(place(none), 0);
}

/// Seconds of the processor for placing what each of `layers` layers keeps for its backward pass, and what it needs in between.
double seconds_of_placing(int64_t layers) {
  std::vector<Region> regions;
  for (int64_t layer = 0; layer < layers; ++layer) {
    regions.push_back({.id = 2 * layer, .bytes = 4096, .begin = layer, .end = 2 * layers - layer});
    regions.push_back({.id = 2 * layer + 1, .bytes = 1024, .begin = layer, .end = layer + 1});
  }
  const std::clock_t start = std::clock();
  EXPECT_EQ(place(regions), layers * 4096 + 2048);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// Ten times as many regions take ten times as long and a little more; examining all others for each region would take a
/// hundred times as long.
TEST(ArenaLayout, TakesAboutAsLongForARegionHoweverManyThereAre) {
  const double few = std::min(seconds_of_placing(2'000), seconds_of_placing(2'000));
  EXPECT_LT(seconds_of_placing(20'000), 40 * few);
}

}  // namespace
}  // namespace mtf::testing
