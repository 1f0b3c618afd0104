// Plans which parts of a gradient each worker pushes and how a server adds them: in the fixed tree over mesh
// positions (engine/comm/tree_sum.h), so that the sum has the same bits as an all_reduce.
//
//   GradientPlan plan = plan_gradient(program, "grad/w", {processes, 0});
//   plan = rows_of_gradient(plan, 0, 100);                            // if a server has only these rows
//   send(pushed_part(executor, plan, slice, part, buffer));           // worker
//   add_gradient(plan, parts, gradient);                              // server
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/tree_sum.h"
#include "engine/core/hosted_mesh.h"
#include "engine/runtime/executor.h"
#include "engine/spmd/program.h"

namespace mtf {

/// A partial sum over a whole subtree of group members, all of which one worker hosts.
struct GradientPart {
  int worker = 0;
  int node = 0;  ///< root of the subtree, a node of GradientPlan::tree
};

/// A slice of a gradient, as the layout splits it.
struct GradientSlice {
  std::vector<int64_t> begin;  ///< index of the first element in the gradient
  Shape shape;
  int64_t first = 0;                ///< index of the first element in a position's slice
  std::vector<int64_t> positions;   ///< by member: a mesh position that has the member's partial sum
  std::vector<GradientPart> parts;  ///< in the order of the tree
  std::vector<TreeNode> tree;       ///< the tree that adds the parts
};

/// A gradient, or some rows of one.
struct GradientPlan {
  std::string output;  ///< name of the output of the workers' program
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<TreeNode> tree;  ///< the reduction tree over the members
  std::vector<GradientSlice> slices;

  size_t bytes(const GradientSlice& slice, const GradientPart& part) const;
};

/// Plans the gradient that is the output grad/VARIABLE of the workers' program. `hosting` gives the number of
/// processes that share the program's mesh.
GradientPlan plan_gradient(const Program& program, const std::string& output, const Hosting& hosting);

/// Restricts a plan to the rows [begin, end) along the first dimension.
GradientPlan rows_of_gradient(GradientPlan plan, int64_t begin, int64_t end);

/// Returns a part that this process hosts, from the last run of the program. It is a view of the program's
/// memory or of `buffer`.
std::span<const std::byte> pushed_part(const Executor& executor, const GradientPlan& plan,
                                       const GradientSlice& slice, const GradientPart& part,
                                       std::vector<std::byte>& buffer);

/// Writes the sum to `gradient`. `parts` are the parts of all slices, in order.
void add_gradient(const GradientPlan& plan, std::span<const std::byte* const> parts, std::byte* gradient);

}  // namespace mtf
