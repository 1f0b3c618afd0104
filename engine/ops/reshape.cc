#include "engine/ops/reshape.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mtf {
namespace {

/// The boundary of each mesh dimension that splits the tensor: the number of equal row-major blocks outside
/// of its split. With boundary b, the element with row-major index e of N is at coordinate floor((e mod (N /
/// b)) * b * n / N) of a mesh dimension of size n.
using Boundaries = std::map<int, int64_t>;

Boundaries boundaries(const Shape& shape, const Layout& layout, const Mesh& mesh) {
  Boundaries result;
  const std::vector<int64_t> outer = shape.cumulative_products();
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t boundary = outer[i];
    for (int axis : layout.split[i]) {
      result[axis] = boundary;
      boundary *= mesh.size(axis);
    }
  }
  return result;
}

/// Returns the layout of `shape` with exactly these boundaries, or nothing if a dimension cannot be split
/// there.
std::optional<Layout> layout_with(const Shape& shape, const Boundaries& wanted, const Mesh& mesh) {
  Layout layout = Layout::replicated(shape.rank());
  size_t placed = 0;
  const std::vector<int64_t> outer = shape.cumulative_products();
  for (int i = 0; i < shape.rank(); ++i) {
    int64_t boundary = outer[i], rest = shape[i].size;
    for (bool found = true; found && rest > 1;) {
      found = false;
      for (const auto& [axis, at] : wanted) {
        if (at != boundary || rest % mesh.size(axis) != 0) continue;
        layout.split.change()[i].push_back(axis);
        boundary *= mesh.size(axis);
        rest /= mesh.size(axis);
        ++placed;
        found = true;
        break;
      }
    }
  }
  return placed == wanted.size() ? std::optional(layout) : std::nullopt;
}

}  // namespace

Reshape::Reshape(const Tensor& x, const Shape& shape) : OperationBase({x}, {{shape, x.dtype()}}) {
  if (x.shape().size() != shape.size()) {
    shape_error("reshape", fmt::format("{} has {} elements and {} has {}", x.shape().to_string(),
                                       x.shape().size(), shape.to_string(), shape.size()));
  }
}

Tensors Reshape::gradient(const Tensors& dy) const { return {reshape(dy[0], input(0).shape())}; }

ShardingRule Reshape::sharding_rule(const ShardingRequest& request) const {
  const Mesh& mesh = request.rules.mesh();
  const Shape& before = input(0).shape();
  const Shape& after = outputs()[0].shape;
  const Boundaries old_boundaries = boundaries(before, request.inputs[0], mesh);
  const Boundaries new_boundaries = boundaries(after, request.rules.of(after), mesh);
  Boundaries kept;
  const auto keep = [&](int axis, int64_t boundary) {
    Boundaries more = kept;
    more[axis] = boundary;
    const bool possible = layout_with(before, more, mesh) && layout_with(after, more, mesh);
    if (possible) kept = std::move(more);
    return possible;
  };
  // Outer boundaries come first, because inner ones are only possible inside of them. Mesh dimensions that
  // stay take precedence over those that move.
  std::vector<std::pair<int64_t, int>> stay, move;
  for (const auto& [axis, boundary] : new_boundaries) {
    const auto old = old_boundaries.find(axis);
    (old != old_boundaries.end() && old->second == boundary ? stay : move).emplace_back(boundary, axis);
  }
  std::sort(stay.begin(), stay.end());
  std::sort(move.begin(), move.end());
  for (const auto& [boundary, axis] : stay) keep(axis, boundary);
  for (const auto& [boundary, axis] : move) {
    if (has_axis(request.inputs[0].partial, axis)) continue;
    const auto old = old_boundaries.find(axis);
    if (!keep(axis, boundary) && old != old_boundaries.end()) keep(axis, old->second);
  }
  ShardingRule rule{{*layout_with(before, kept, mesh)}, {*layout_with(after, kept, mesh)}};
  const AxisMask partial = request.inputs[0].partial & ~rule.inputs[0].split_axes();
  rule.inputs[0].partial = partial;
  rule.outputs[0].partial = partial;
  return rule;
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : x.graph().add<Reshape>(x, shape).output();
}

Tensor rename(const Tensor& x, const std::string& from, const std::string& to) {
  return reshape(x, x.shape().renamed(from, to));
}

Tensor replace_dimensions(const Tensor& x, const Shape& from, const Shape& to) {
  const std::optional<int> first = from.rank() > 0 ? x.shape().find(from[0].name) : std::nullopt;
  std::vector<Dimension> dimensions;
  bool consecutive = first.has_value();
  for (int i = 0; consecutive && i < from.rank(); ++i) {
    consecutive = *first + i < x.shape().rank() && x.shape()[*first + i] == from[i];
  }
  if (!consecutive) {
    shape_error("replace_dimensions", fmt::format("{} does not occur in {} in this order", from.to_string(),
                                                  x.shape().to_string()));
  }
  for (int i = 0; i < x.shape().rank(); ++i) {
    if (i == *first) dimensions.insert(dimensions.end(), to.begin(), to.end());
    if (i < *first || i >= *first + from.rank()) dimensions.push_back(x.shape()[i]);
  }
  return reshape(x, Shape(std::move(dimensions)));
}

}  // namespace mtf
