#include "trainer/parameter_server/gradient_plan.h"

#include "engine/runtime/slicing.h"

namespace mtf {
namespace {

/// The largest subtrees below `node` whose members are all with one worker become parts; returns the node of
/// the tree over parts.
int cut(const std::vector<TreeNode>& tree, const std::vector<int>& owners, int node, GradientSlice& slice) {
  if (owners[node] >= 0) {
    TreeNode leaf;
    leaf.member = static_cast<int64_t>(slice.parts.size());
    leaf.added = tree[node].left >= 0;
    slice.parts.push_back({owners[node], node});
    slice.tree.push_back(leaf);
    return static_cast<int>(slice.tree.size()) - 1;
  }
  TreeNode inner;
  inner.left = cut(tree, owners, tree[node].left, slice);
  inner.right = cut(tree, owners, tree[node].right, slice);
  slice.tree.push_back(inner);
  return static_cast<int>(slice.tree.size()) - 1;
}

/// By node: the worker that has all members; -1: several.
std::vector<int> owners_of(const std::vector<TreeNode>& tree, const std::vector<int64_t>& positions,
                           const HostedMesh& hosted) {
  std::vector<int> owners;
  for (const TreeNode& node : tree) {
    if (node.left < 0) {
      owners.push_back(hosted.host(positions[node.member]));
    } else {
      owners.push_back(owners[node.left] == owners[node.right] ? owners[node.left] : -1);
    }
  }
  return owners;
}

GradientPlan plan_gradient(const Program& program, const std::string& output, const HostedMesh& hosted) {
  const Mesh& mesh = program.mesh;
  const ValueId id = program.output(output);
  const Value& value = program.values[id];
  GradientPlan plan{.variable = output.substr(output.find('/') + 1),
                    .output = output,
                    .dtype = value.dtype,
                    .shape = value.shape,
                    .local = program.local_shape(id),
                    .tree = {},
                    .slices = {}};
  const AxisMask split = value.layout.split_axes(), partial = value.layout.partial;
  std::vector<int64_t> group;
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    if (has_axis(partial, axis)) group.push_back(mesh.size(axis));
  }
  plan.tree = reduction_tree(group);
  plan.slices.resize(mesh.size_of(split));
  for (GradientSlice& slice : plan.slices) slice.positions.assign(mesh.size_of(partial), -1);
  for (int64_t position = 0; position < mesh.size(); ++position) {
    int64_t& of_member =
        plan.slices[mesh.project(position, split)].positions[mesh.project(position, partial)];
    if (of_member < 0) of_member = position;
  }
  for (GradientSlice& slice : plan.slices) {
    slice.begin = slice_begin(value.shape, value.layout, mesh, slice.positions[0]);
    cut(plan.tree, owners_of(plan.tree, slice.positions, hosted), static_cast<int>(plan.tree.size()) - 1,
        slice);
  }
  return plan;
}

}  // namespace

size_t GradientPlan::bytes(const GradientPart& part) const {
  const size_t of_element = tree[part.node].left >= 0 ? accumulator_bytes(dtype) : size_of(dtype);
  return static_cast<size_t>(local.size()) * of_element;
}

std::vector<GradientPlan> plan_gradients(const Program& program, const Hosting& hosting) {
  const HostedMesh hosted(program.mesh, {hosting.processes, 0});
  std::vector<GradientPlan> plans;
  for (const auto& [name, id] : program.outputs) {
    if (name.starts_with("grad/")) plans.push_back(plan_gradient(program, name, hosted));
  }
  return plans;
}

void pushed_part(const Executor& executor, const GradientPlan& plan, const GradientSlice& slice,
                 const GradientPart& part, std::span<std::byte> result) {
  std::vector<const std::byte*> inputs(slice.positions.size());
  const std::vector<TreeNode>& tree = plan.tree;
  std::vector<int> open{part.node};
  while (!open.empty()) {
    const TreeNode node = tree[open.back()];
    open.pop_back();
    if (node.left < 0) {
      inputs[node.member] = executor.slice(plan.output, slice.positions[node.member]);
    } else {
      open.insert(open.end(), {node.left, node.right});
    }
  }
  const int64_t count = plan.local.size();
  const std::unique_ptr<TreeReduction> reduction = prepare_reduction(tree, plan.dtype, Reduction::kSum);
  if (tree[part.node].left >= 0) {
    reduction->add(inputs, part.node, 0, count, result.data());
  } else {
    std::copy_n(inputs[tree[part.node].member], result.size(), result.data());
  }
}

void add_gradient(const GradientPlan& plan, std::span<const std::byte* const> parts,
                  std::span<std::byte> gradient) {
  std::vector<std::byte> sum(static_cast<size_t>(plan.local.size()) * size_of(plan.dtype));
  for (const GradientSlice& slice : plan.slices) {
    const auto reduction = prepare_reduction(slice.tree, plan.dtype, Reduction::kSum);
    const bool is_whole = plan.slices.size() == 1;
    reduction->reduce(parts.first(slice.parts.size()), 0, plan.local.size(),
                      is_whole ? gradient.data() : sum.data());
    parts = parts.subspan(slice.parts.size());
    if (!is_whole)
      copy_from_slice(plan.shape, plan.local, slice.begin, size_of(plan.dtype), sum.data(), gradient.data());
  }
}

}  // namespace mtf
