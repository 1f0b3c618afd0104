#include "engine/comm/tree_sum.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace mtf {
namespace {

/// Returns the tree as text: "((0+1)+2)".
std::string to_text(const std::vector<TreeNode>& tree, int node) {
  const TreeNode& n = tree[node];
  if (n.left < 0) return std::to_string(n.member);
  return "(" + to_text(tree, n.left) + "+" + to_text(tree, n.right) + ")";
}

std::string tree_of(const std::vector<int64_t>& group) {
  const std::vector<TreeNode> tree = reduction_tree(group);
  return to_text(tree, static_cast<int>(tree.size()) - 1);
}

TEST(TreeSum, SplitsAtTheLargestPowerOfTwoBelowTheCount) {
  EXPECT_EQ(tree_of({1}), "0");
  EXPECT_EQ(tree_of({2}), "(0+1)");
  EXPECT_EQ(tree_of({3}), "((0+1)+2)");
  EXPECT_EQ(tree_of({4}), "((0+1)+(2+3))");
  EXPECT_EQ(tree_of({5}), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(tree_of({6}), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(tree_of({7}), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(tree_of({8}), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(TreeSum, CombinesTheLastMeshDimensionFirst) {
  EXPECT_EQ(tree_of({2, 3}), "(((0+1)+2)+((3+4)+5))");
  EXPECT_EQ(tree_of({3, 2}), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(tree_of({2, 2, 2}), "(((0+1)+(2+3))+((4+5)+(6+7)))");
  EXPECT_EQ(tree_of({1, 3, 1}), "((0+1)+2)");
}

TEST(TreeSum, OfAnEmptyGroupIsTheOneMember) { EXPECT_EQ(tree_of({}), "0"); }

TEST(TreeSum, EveryMemberOccursOnce) {
  for (int64_t n = 1; n <= 70; ++n) {
    const std::vector<TreeNode> tree = reduction_tree({n});
    std::vector<int> seen(n, 0);
    for (const TreeNode& node : tree) {
      if (node.left < 0) ++seen[node.member];
    }
    EXPECT_EQ(seen, std::vector<int>(n, 1)) << n;
    EXPECT_EQ(static_cast<int64_t>(tree.size()), 2 * n - 1);
  }
}

}  // namespace
}  // namespace mtf
