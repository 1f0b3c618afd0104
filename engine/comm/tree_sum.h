// The order in which the members of a group are combined, as a binary tree.
#pragma once

#include <cstdint>
#include <vector>

namespace mtf {

/// A leaf is one member; an inner node combines its children, left before right.
struct TreeNode {
  int64_t member = -1;  ///< of a leaf
  int left = -1;
  int right = -1;
};

/// Nodes of the tree over members counted row-major in `group`; the root is the last. Along one mesh
/// dimension [lo, hi) splits at lo + the largest power of two below hi - lo; the last mesh dimension is
/// combined first.
std::vector<TreeNode> reduction_tree(const std::vector<int64_t>& group);

}  // namespace mtf
