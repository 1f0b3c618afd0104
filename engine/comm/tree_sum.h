// The binary tree that defines the order in which the members of a group are combined, and its evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/layout.h"

namespace mtf {

/// A node of the tree. A leaf is one member; an inner node combines its children, left before right.
struct TreeNode {
  int64_t member = -1;  ///< member of a leaf
  int left = -1;
  int right = -1;
  bool added = false;  ///< a leaf that stands for a subtree: its elements have the accumulator's type
};

/// Returns the nodes of the tree over the members, counted row-major in `group`; the root is the last one.
/// Along one mesh dimension, [lo, hi) is split at lo + the largest power of two below hi - lo; the last mesh
/// dimension is combined first.
std::vector<TreeNode> reduction_tree(const std::vector<int64_t>& group);

/// Combines elements in the order of a tree, in the accumulator's type: float32 for bfloat16, otherwise the
/// element type.
class TreeReduction {
 public:
  virtual ~TreeReduction() = default;
  /// Computes result[k] = root over inputs[member][begin + k], rounded once.
  virtual void reduce(std::span<const std::byte* const> inputs, int64_t begin, int64_t count,
                      std::byte* result) const = 0;
  /// Computes sum[k] = `node` over inputs[member][begin + k], in the accumulator's type.
  virtual void add(std::span<const std::byte* const> inputs, int node, int64_t begin, int64_t count,
                   std::byte* sum) const = 0;
};

std::unique_ptr<TreeReduction> prepare_reduction(std::vector<TreeNode> tree, DType dtype,
                                                 Reduction reduction);
/// Returns the number of bytes of an element in the accumulator's type.
size_t accumulator_bytes(DType dtype);

}  // namespace mtf
