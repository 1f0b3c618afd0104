#include "engine/graph/sharding_rule.h"

#include <algorithm>
#include <numeric>

#include "engine/base/check.h"
#include "engine/graph/operation.h"

namespace mtf {
std::string split_apart(const std::string& name, const std::vector<std::string>& others) {
  std::string result = name;
  for (const std::string& other : others) result += kApart + other;
  return result;
}

LayoutMap::LayoutMap(const Mesh& mesh, const LayoutRules& rules) : mesh_(&mesh) {
  for (const LayoutRule& rule : rules.rules()) {
    std::vector<int> axes;
    for (const std::string& name : rule.mesh_dimensions) {
      const std::optional<int> axis = mesh.shape().find(name);
      if (axis && mesh.size(*axis) > 1) axes.push_back(*axis);
    }
    if (!axes.empty()) axes_.emplace_back(rule.dimension, std::move(axes));
  }
}

std::vector<int> LayoutMap::axes_of_rule(std::string_view name) const {
  for (const auto& [dimension, axes] : axes_) {
    if (dimension == name) return axes;
  }
  return {};
}

std::vector<int> LayoutMap::axes(const std::string& name) const {
  size_t end = std::min(name.find(kApart), name.size());
  std::vector<int> axes = axes_of_rule(std::string_view(name).substr(0, end));
  while (end < name.size()) {
    const size_t begin = end + 1;
    end = std::min(name.find(kApart, begin), name.size());
    for (const int axis : axes_of_rule(std::string_view(name).substr(begin, end - begin)))
      std::erase(axes, axis);
  }
  return axes;
}

int64_t LayoutMap::parts(const std::string& name) const {
  int64_t parts = 1;
  for (const int axis : axes(name)) parts *= mesh_->size(axis);
  return parts;
}

Layout LayoutMap::of(const Shape& shape) const {
  std::vector<std::vector<int>> split;
  for (const Dimension& d : shape) split.push_back(axes(d.name));
  return {std::move(split)};
}

ShardingRule shard_by_name(const Operation& operation, const ShardingRequest& request) {
  ShardingRule rule;
  for (const Tensor& input : operation.inputs()) rule.inputs.push_back(request.rules.of(input.shape()));
  for (const OutputInfo& output : operation.outputs()) rule.outputs.push_back(request.rules.of(output.shape));
  return rule;
}

ShardingRule shard_linear(const Operation& operation, const ShardingRequest& request,
                          const std::vector<int>& linear_inputs) {
  ShardingRule rule = shard_by_name(operation, request);
  AxisMask partial = request.rules.mesh().all_axes();
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    const bool linear =
        std::find(linear_inputs.begin(), linear_inputs.end(), static_cast<int>(i)) != linear_inputs.end();
    partial &= linear ? request.inputs[i].partial & ~rule.inputs[i].split_axes() : ~rule.inputs[i].varies();
  }
  for (int i : linear_inputs) rule.inputs[i].partial = partial;
  for (Layout& output : rule.outputs) {
    MTF_CHECK((output.split_axes() & partial) == 0, "{} cannot keep a partial sum", operation.name());
    output.partial = partial;
  }
  return rule;
}

ShardingRule shard_linear(const Operation& operation, const ShardingRequest& request) {
  std::vector<int> all(operation.inputs().size());
  std::iota(all.begin(), all.end(), 0);
  return shard_linear(operation, request, all);
}

ShardingRule shard_reduction(const Operation& operation, const ShardingRequest& request, const Shape& reduced,
                             Reduction reduction) {
  ShardingRule rule = shard_by_name(operation, request);
  rule.reduction = reduction;
  AxisMask partial = 0;
  for (const Dimension& d : reduced) {
    for (int axis : request.rules.axes(d.name)) partial |= axis_bit(axis);
  }
  for (Layout& output : rule.outputs) output.partial = partial;
  return rule;
}

}  // namespace mtf
