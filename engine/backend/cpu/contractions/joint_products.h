// Products of several positions of a process in one call (JointPositions).
//
// Positions that have different rows of A and the same B, as with a batch that is split, multiply the rows of all of them by one
// packed B. Positions that have different depths, as in the gradient of their weights, make the entries of C tile by tile: the
// tile of each position is added to the total while it is in L1.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/joint_positions.h"
#include "engine/backend/kernel.h"

namespace mtf {

/// Joint products are cut into tasks of about so many FLOPs, up to so many tasks.
inline constexpr int64_t kFlopsPerJointTask = 8 << 20, kMostJointTasks = 32;

/// Positions with more rows each pack B in little of the time in which they multiply it.
inline constexpr int64_t kMostJointRows = 128;
/// In sums with a greater depth at each position the additions take little of the time, and the operands of all positions do not
/// fit into the caches together.
inline constexpr int64_t kMostSummedDepth = 128;
/// The most elements of a total. The memory plan counts the terms, too, which do without memory here, so they should be small.
inline constexpr int64_t kMostSummedElements = 1 << 19;

/// One position's product as a matrix product whose rows may lie anywhere: offsets in elements.
struct JointOperands {
  int a = 0, b = 1;                     ///< the inputs that are A and B
  std::vector<int64_t> a_rows, c_rows;  ///< where each row begins
  int64_t columns = 1, b_column_stride = 0;
  std::vector<SummedAxis> summed;
  int64_t depth = 1;
  bool in_bfloat16 = false;

  int64_t rows() const { return static_cast<int64_t>(a_rows.size()); }
  int64_t flops() const { return 2 * rows() * columns * depth; }
};

/// The operands of an einsum of float32 values; nothing if the columns of C are not contiguous, or there is a batch of products.
std::optional<JointOperands> joint_operands(const KernelContext& context);

/// Null if the operation is no such product, or the positions gain nothing.
std::unique_ptr<Kernel> prepare_joint_product(const KernelContext& context, const JointPositions& positions);
/// The two cases of it.
std::unique_ptr<Kernel> prepare_joint_rows(JointOperands operands, int64_t positions);
std::unique_ptr<Kernel> prepare_summed_products(JointOperands operands, const std::vector<int64_t>& group);

}  // namespace mtf
