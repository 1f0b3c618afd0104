#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace mtf {
namespace {

std::vector<int64_t> order(int64_t rows, uint64_t seed, int64_t epoch) {
  Permutation permutation(rows, seed, epoch);
  std::vector<int64_t> result(rows);
  for (int64_t i = 0; i < rows; ++i) result[i] = permutation(i);
  return result;
}

TEST(Permutation, IsABijection) {
  std::vector<int64_t> sizes = {255, 256, 257, 1000, 1023, 1024, 1025, 4097, 60000};
  for (int64_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const int64_t n : sizes)
    for (const int64_t epoch : {0, 1, 7}) {
      std::vector<bool> seen(n, false);
      for (const int64_t row : order(n, 3, epoch)) {
        ASSERT_GE(row, 0);
        ASSERT_LT(row, n);
        ASSERT_FALSE(seen[row]) << "row " << row << " of " << n << " occurs twice";
        seen[row] = true;
      }
    }
}

TEST(Permutation, IsAPureFunctionOfSeedAndEpoch) {
  EXPECT_EQ(order(1000, 1, 4), order(1000, 1, 4));
  EXPECT_NE(order(1000, 1, 4), order(1000, 1, 5));
  EXPECT_NE(order(1000, 1, 4), order(1000, 2, 4));
}

// The values determine the order of the examples of every run, so they must never change.
TEST(Permutation, ValuesThatNeverChange) {
  Permutation permutation(60000, 1, 2);
  const std::vector<int64_t> expected = {18349, 30684, 10216, 17581, 36038, 31439, 33261, 41387};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(permutation(i), expected[i]);
}

TEST(Permutation, ReachesEveryOrderOfThreeRowsAboutEquallyOften) {
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[order(3, 1, epoch)];
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [rows, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Permutation, MovesRowsWithoutTrend) {
  // The correlations of position and row, and of neighbouring rows, are of order 1 / sqrt(n) for a random
  // order.
  constexpr int64_t n = 20000;
  const std::vector<int64_t> rows = order(n, 1, 0);
  const auto centred = [](int64_t x) { return (static_cast<double>(x) - (n - 1) / 2.0) / n; };
  double with_position = 0, with_neighbour = 0;
  for (int64_t i = 0; i + 1 < n; ++i) {
    with_position += centred(i) * centred(rows[i]) * 12 / n;
    with_neighbour += centred(rows[i]) * centred(rows[i + 1]) * 12 / n;
  }
  EXPECT_LT(std::abs(with_position), 4 / std::sqrt(n));
  EXPECT_LT(std::abs(with_neighbour), 4 / std::sqrt(n));
}

TEST(Permutation, NeedsNoMemoryForManyRows) {
  const int64_t n = (int64_t{1} << 62) - 57;
  Permutation permutation(n, 1, 0);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t row = permutation(n - 1 - i);
    EXPECT_GE(row, 0);
    EXPECT_LT(row, n);
    EXPECT_TRUE(seen.insert(row).second);
  }
}

}  // namespace
}  // namespace mtf
