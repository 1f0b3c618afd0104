// What each worker pushes of each gradient, and how a server adds it up: in the fixed tree over mesh
// positions (engine/comm/tree_sum.h), so that the sum has the bits of an all_reduce.
//
//   GradientPlan plan = plan_gradient(program, "grad/w", {processes, 0});
//   plan = rows_of_gradient(plan, 0, 100);                            // where a server has some rows only
//   send(pushed_part(executor, plan, slice, part, buffer));           // worker
//   add_gradient(plan, parts, gradient);                              // server
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/tree_sum.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/executor.h"
#include "engine/spmd/program.h"

namespace mtf {

/// A sum over a whole subtree of members that one worker hosts.
struct GradientPart {
  int worker = 0;
  int node = 0;  ///< of GradientPlan::tree
};

/// A slice of a gradient, as the layout splits it.
struct GradientSlice {
  std::vector<int64_t> begin;  ///< in the gradient
  Shape shape;
  int64_t first = 0;                ///< element where it begins in what a position has
  std::vector<int64_t> positions;   ///< by member: a mesh position that has its partial sum
  std::vector<GradientPart> parts;  ///< in the order of the tree
  std::vector<TreeNode> tree;       ///< over parts
};

/// A gradient, or some rows of one.
struct GradientPlan {
  std::string output;  ///< of the worker's program
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<TreeNode> tree;  ///< over members
  std::vector<GradientSlice> slices;

  size_t bytes(const GradientSlice& slice, const GradientPart& part) const;
};

/// Of the output grad/VARIABLE of the workers' program. `hosting`: the processes among which its mesh is
/// divided.
GradientPlan plan_gradient(const Program& program, const std::string& output, const Hosting& hosting);

/// Of the rows [begin, end) along the first dimension.
GradientPlan rows_of_gradient(GradientPlan plan, int64_t begin, int64_t end);

/// A part that this process hosts, from the last run of the program: where it lies, or in `buffer`.
std::span<const std::byte> pushed_part(const Executor& executor, const GradientPlan& plan,
                                       const GradientSlice& slice, const GradientPart& part,
                                       std::vector<std::byte>& buffer);

/// The sum. `parts`: those of all slices in order.
void add_gradient(const GradientPlan& plan, std::span<const std::byte* const> parts, std::byte* gradient);

}  // namespace mtf
