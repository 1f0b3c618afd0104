#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/backend/cuda/device/element_walk.h"

namespace mtf::cuda {
namespace {

constexpr int64_t kHalf = int64_t{1} << 31, kLargest = std::numeric_limits<int64_t>::max();

void expect_division(int64_t n, int64_t d, int64_t bound) {
  const Division division = Divisor(d, bound)(n);
  ASSERT_EQ(division.quotient, n / d) << n << " / " << d;
  ASSERT_EQ(division.remainder, n % d) << n << " % " << d;
}

/// Numbers from 0 to `largest` at which divisions are most likely to be wrong: near powers of two and the
/// ends.
std::vector<int64_t> extremes(int64_t largest) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i <= std::min<int64_t>(70, largest); ++i) result.insert(result.end(), {i, largest - i});
  for (int bit = 6; bit < 63; ++bit) {
    const int64_t power = int64_t{1} << bit;
    for (int64_t i = -3; i <= 3; ++i) {
      if (i <= largest - power) result.push_back(power + i);
    }
  }
  return result;
}

class Divisions : public ::testing::TestWithParam<int64_t> {};

TEST_P(Divisions, AgreeWithTheProcessorsAtExtremes) {
  const int64_t bound = GetParam();
  const std::vector<int64_t> dividends = extremes(bound - 1);
  for (int64_t d : extremes(bound)) {
    if (d == 0) continue;
    for (int64_t n : dividends) expect_division(n, d, bound);
    // Multiples of the divisor and their neighbours.
    for (int64_t q : extremes((bound - 1) / d)) {
      for (int64_t i = -1; i <= 1; ++i) {
        const int64_t n = q * d;
        if (i < bound - n && n + i >= 0) expect_division(n + i, d, bound);
      }
    }
  }
}

TEST_P(Divisions, AgreeWithTheProcessorsAtRandom) {
  const int64_t bound = GetParam();
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto n = static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
    expect_division(n, static_cast<int64_t>((random() >> 1) >> random() % 63) + 1, bound);
    expect_division(n, static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)) + 1, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Bounds, Divisions, ::testing::Values(kHalf, kHalf + 1, int64_t{1} << 40, kLargest));

TEST(Divisor, BelowAThousandWithoutException) {
  for (int64_t d = 1; d < 1000; ++d) {
    for (int64_t n = 0; n < 1000; ++n) {
      expect_division(n, d, 1000);
      expect_division(n, d, kLargest);
    }
  }
}

/// Axes in all orders, with gaps, and repeated and joinable ones.
TEST(Strided, WalksAsTheHostDoes) {
  const std::vector<StridedAxes<2>> walks = {
      {},
      {{1, {5, 6}}},
      {{7, {1, 1}}},
      {{3, {4, 20}}, {4, {1, 5}}},
      {{3, {1, 4}}, {4, {3, 1}}},
      {{2, {12, 0}}, {3, {4, 1}}, {4, {1, 0}}},
      {{2, {60, 7}}, {3, {20, 14}}, {1, {9, 9}}, {4, {5, 50}}, {5, {1, 1000}}},
      {{5, {int64_t{1} << 40, 3}}, {70000, {1, int64_t{1} << 35}}},
  };
  for (const StridedAxes<2>& axes : walks) {
    const Strided<2> walk(axes);
    ASSERT_EQ(walk.size(), size_of(axes));
    for (int64_t i = 0; i < walk.size(); ++i) ASSERT_EQ(walk.at(i), offsets_of(axes, i)) << i;
  }
}

TEST(Strided, IndicesOfManyBits) {
  const StridedAxes<1> axes = {
      {int64_t{1} << 20, {3}}, {(int64_t{1} << 21) + 5, {int64_t{1} << 22}}, {1023, {1}}};
  const Strided<1> walk(axes);
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    const auto entry = static_cast<int64_t>(random() % static_cast<uint64_t>(walk.size()));
    ASSERT_EQ(walk.at(entry), offsets_of(axes, entry)) << entry;
  }
}

TEST(Strided, SaysWhereElementsFollowEachOther) {
  const Strided<2> walk(StridedAxes<2>{{3, {8, 9}}, {8, {1, 1}}});
  EXPECT_TRUE(walk.in_packs(0, 8));
  EXPECT_FALSE(walk.in_packs(0, 16));
  EXPECT_FALSE(walk.in_packs(1, 8));
  EXPECT_TRUE(walk.in_packs(1, 1));
  EXPECT_FALSE(Strided<1>(StridedAxes<1>{{8, {2}}}).in_packs(0, 4));
  EXPECT_FALSE(Strided<1>().in_packs(0, 4));
}

TEST(Pack, SixteenBytesOfTheWidestOperand) {
  EXPECT_EQ(kPack<float>, 4);
  EXPECT_EQ((kPack<BFloat16, bool>), 8);
  EXPECT_EQ((kPack<float, double, bool>), 2);
  EXPECT_EQ(alignof(Pack<float, 4>), 16u);
  EXPECT_EQ(alignof(Pack<bool, 2>), 2u);
  EXPECT_EQ(sizeof(Pack<double, 4>), 32u);
}

TEST(Pack, PartsOfPacksLeaveTheRestAlone) {
  alignas(16) float x[8], y[8];
  std::iota(x, x + 8, 1.0f);
  for (int count = 0; count <= 4; ++count) {
    std::fill(y, y + 8, -1.0f);
    const Pack<float, 4> pack = load<4>(x + 4, count);
    store(y, pack, count);
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(y[i], i < count ? x[4 + i] : -1.0f);
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(pack[i], i < count ? x[4 + i] : 0.0f);
  }
}

}  // namespace
}  // namespace mtf::cuda
