#include "engine/comm/device/block_pool.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

TEST(BlockPool, CollectivesThatAreUnderWayTogetherHaveDifferentBlocks) {
  BlockPool pool;
  const int first = pool.take(100, BlockPool::kNone), second = pool.take(50, BlockPool::kNone);
  EXPECT_NE(first, second);
  pool.give_back(first);
  EXPECT_EQ(pool.take(80, BlockPool::kNone), first);
  EXPECT_EQ(pool.bytes(), 150);
}

TEST(BlockPool, GivesTheLastOneAgainElseTheSmallestThatIsLargeEnough) {
  BlockPool pool;
  const int large = pool.take(100, BlockPool::kNone), small = pool.take(50, BlockPool::kNone);
  pool.give_back(large);
  pool.give_back(small);
  EXPECT_EQ(pool.take(40, BlockPool::kNone), small);
  pool.give_back(small);
  EXPECT_EQ(pool.take(40, large), large);
  EXPECT_EQ(pool.take(60, large), 2) << "the last one is taken, the other too small";
}

TEST(BlockPool, NoBytesNeedNoBlock) {
  BlockPool pool;
  EXPECT_EQ(pool.take(0, BlockPool::kNone), BlockPool::kNone);
  pool.give_back(BlockPool::kNone);
  EXPECT_EQ(pool.bytes(), 0);
}

}  // namespace
}  // namespace mtf
