// What each worker pushes of each gradient, and how a server adds it up: in the fixed tree over mesh
// positions (engine/comm/tree_sum.h), so that the sum has the bits of an all_reduce.
//
//   const std::vector<GradientPlan> plans = plan_gradients(program, {processes, 0});
//   pushed_part(executor, plan, slice, part, buffer);               // worker
//   add_gradient(plan, parts, gradient);                            // server
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
  std::vector<int64_t> begin;
  std::vector<int64_t> positions;   ///< by member: a mesh position that has its partial sum
  std::vector<GradientPart> parts;  ///< in the order of the tree
  std::vector<TreeNode> tree;       ///< over parts
};

struct GradientPlan {
  std::string variable;
  std::string output;  ///< of the worker's program
  DType dtype = DType::kFloat32;
  Shape shape, local;
  std::vector<TreeNode> tree;  ///< over members
  std::vector<GradientSlice> slices;

  size_t bytes(const GradientPart& part) const;
};

/// Of the outputs grad/VARIABLE, in the order of the program. `hosting`: the processes among which the mesh
/// is divided.
std::vector<GradientPlan> plan_gradients(const Program& program, const Hosting& hosting);

/// A part that this process hosts, from the last run of the program.
void pushed_part(const Executor& executor, const GradientPlan& plan, const GradientSlice& slice,
                 const GradientPart& part, std::span<std::byte> result);

/// The whole gradient. `parts`: those of all slices in order.
void add_gradient(const GradientPlan& plan, std::span<const std::byte* const> parts,
                  std::span<std::byte> gradient);

}  // namespace mtf
