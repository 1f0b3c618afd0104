// The order in which the members of a group are combined, as a binary tree, and the combining itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/layout.h"

namespace mtf {

/// A leaf is one member; an inner node combines its children, left before right.
struct TreeNode {
  int64_t member = -1;  ///< of a leaf
  int left = -1;
  int right = -1;
  bool added = false;  ///< a leaf that stands for a subtree: its elements are in the accumulator's type
};

/// Nodes of the tree over members counted row-major in `group`; the root is the last. Along one mesh
/// dimension [lo, hi) splits at lo + the largest power of two below hi - lo; the last mesh dimension is
/// combined first.
std::vector<TreeNode> reduction_tree(const std::vector<int64_t>& group);

/// Combines elements in the order of a tree, in the accumulator's type: float32 for bfloat16, else their own.
class TreeReduction {
 public:
  virtual ~TreeReduction() = default;
  /// result[k] = root over inputs[member][begin + k], rounded once.
  virtual void reduce(std::span<const std::byte* const> inputs, int64_t begin, int64_t count,
                      std::byte* result) const = 0;
  /// sum[k] = `node` over inputs[member][begin + k], in the accumulator's type.
  virtual void add(std::span<const std::byte* const> inputs, int node, int64_t begin, int64_t count,
                   std::byte* sum) const = 0;
};

std::unique_ptr<TreeReduction> prepare_reduction(std::vector<TreeNode> tree, DType dtype,
                                                 Reduction reduction);
/// Bytes of an element in the accumulator's type.
size_t accumulator_bytes(DType dtype);

}  // namespace mtf
