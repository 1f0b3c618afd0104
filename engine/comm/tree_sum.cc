#include "engine/comm/tree_sum.h"

#include <bit>
#include <cstddef>

namespace mtf {
namespace {

class Builder {
 public:
  explicit Builder(const std::vector<int64_t>& group) : group_(group) {}

  /// The subtree for coordinate prefix `base` at mesh dimension `level`.
  int level(size_t level, int64_t base) {
    if (level == group_.size()) return add({base, -1, -1});
    return range(level, base, 0, group_[level]);
  }
  std::vector<TreeNode> take() { return std::move(nodes_); }

 private:
  int range(size_t level, int64_t base, int64_t low, int64_t high) {
    if (high - low == 1) return this->level(level + 1, base * group_[level] + low);
    const int64_t middle = low + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(high - low - 1)));
    const int left = range(level, base, low, middle);
    const int right = range(level, base, middle, high);
    return add({-1, left, right});
  }
  int add(TreeNode node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  const std::vector<int64_t>& group_;
  std::vector<TreeNode> nodes_;
};

}  // namespace

std::vector<TreeNode> reduction_tree(const std::vector<int64_t>& group) {
  Builder builder(group);
  builder.level(0, 0);
  return builder.take();
}

}  // namespace mtf
