#include "trainer/parameter_server/gradient_plan.h"

#include <algorithm>
#include <memory>

#include "engine/base/check.h"
#include "engine/runtime/slicing.h"

namespace mtf {
namespace {

int64_t elements_of_row(const Shape& shape) { return shape.rank() > 0 ? shape.size() / shape[0].size : 1; }

/// Makes the largest subtrees below `node` whose members are all hosted by one worker to parts of `slice`.
/// Returns the corresponding node of the tree over parts.
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

/// Returns for each node the worker that hosts all members below it, or -1 if there are several workers.
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

}  // namespace

GradientPlan plan_gradient(const Program& program, const std::string& output, const Hosting& hosting) {
  const Mesh& mesh = program.mesh;
  const HostedMesh hosted(mesh, {hosting.processes, 0});
  const ValueId id = program.output(output);
  MTF_CHECK(id != kNoValue, "the program has no output `{}`", output);
  const Value& value = program.values[id];
  GradientPlan plan{.output = output, .dtype = value.dtype, .shape = value.shape, .tree = {}, .slices = {}};
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
    slice.shape = program.local_shape(id);
    cut(plan.tree, owners_of(plan.tree, slice.positions, hosted), static_cast<int>(plan.tree.size()) - 1,
        slice);
  }
  return plan;
}

GradientPlan rows_of_gradient(GradientPlan plan, int64_t begin, int64_t end) {
  const std::string dimension = plan.shape[0].name;
  plan.shape = plan.shape.resized(dimension, end - begin);
  std::vector<GradientSlice> slices;
  for (GradientSlice& slice : plan.slices) {
    const int64_t first = std::max(begin, slice.begin[0]);
    const int64_t rows = std::min(end, slice.begin[0] + slice.shape[0].size) - first;
    if (rows <= 0) continue;
    slice.first += (first - slice.begin[0]) * elements_of_row(slice.shape);
    slice.begin[0] = first - begin;
    slice.shape = slice.shape.resized(dimension, rows);
    slices.push_back(std::move(slice));
  }
  plan.slices = std::move(slices);
  return plan;
}

size_t GradientPlan::bytes(const GradientSlice& slice, const GradientPart& part) const {
  const size_t of_element = tree[part.node].left >= 0 ? accumulator_bytes(dtype) : size_of(dtype);
  return static_cast<size_t>(slice.shape.size()) * of_element;
}

std::span<const std::byte> pushed_part(const Executor& executor, const GradientPlan& plan,
                                       const GradientSlice& slice, const GradientPart& part,
                                       std::vector<std::byte>& buffer) {
  const std::vector<TreeNode>& tree = plan.tree;
  const size_t bytes = plan.bytes(slice, part);
  if (const TreeNode& leaf = tree[part.node]; leaf.left < 0) {
    const std::byte* whole = executor.slice(plan.output, slice.positions[leaf.member], buffer);
    return {whole + static_cast<size_t>(slice.first) * size_of(plan.dtype), bytes};
  }
  std::vector<const std::byte*> inputs(slice.positions.size());
  std::vector<std::vector<std::byte>> device_slices(slice.positions.size());
  std::vector<int> open{part.node};
  while (!open.empty()) {
    const TreeNode node = tree[open.back()];
    open.pop_back();
    if (node.left < 0) {
      inputs[node.member] = executor.slice(plan.output, slice.positions[node.member],
                                           device_slices[static_cast<size_t>(node.member)]);
    } else {
      open.insert(open.end(), {node.left, node.right});
    }
  }
  buffer.resize(bytes);
  prepare_reduction(tree, plan.dtype, Reduction::kSum)
      ->add(inputs, part.node, slice.first, slice.shape.size(), buffer.data());
  return buffer;
}

void add_gradient(const GradientPlan& plan, std::span<const std::byte* const> parts, std::byte* gradient) {
  std::vector<std::byte> sum;
  for (const GradientSlice& slice : plan.slices) {
    const auto reduction = prepare_reduction(slice.tree, plan.dtype, Reduction::kSum);
    const bool is_all = slice.shape == plan.shape;
    if (!is_all) sum.resize(static_cast<size_t>(bytes_of(slice.shape, plan.dtype)));
    reduction->reduce(parts.first(slice.parts.size()), 0, slice.shape.size(), is_all ? gradient : sum.data());
    parts = parts.subspan(slice.parts.size());
    if (!is_all)
      copy_from_slice(plan.shape, slice.shape, slice.begin, size_of(plan.dtype), sum.data(), gradient);
  }
}

}  // namespace mtf
