#include "layers/context.h"

#include <fmt/format.h>

#include "engine/core/nearest.h"
#include "engine/ops/cast.h"

namespace mtf {

Tensor Context::variable(const std::string& name, const Shape& shape, const Initializer& initializer) {
  const Variable& variable = graph_.variable(graph_.scoped(name), shape, precision_.slice, initializer);
  const Tensor value = graph_.read(variable);
  // The cast belongs to the variable at rest: what is gathered is the narrower type.
  const auto domain = graph_.domain(Domain::kParameter);
  return cast(value, precision_.activation);
}

Tensor Context::saved(const std::string& name) const {
  const auto found = saved_.find(name);
  if (found != saved_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [saved, tensor] : saved_) names.push_back(saved);
  throw Error(
      ErrorKind::kConfig, fmt::format("no layer before this one saves `{}`", name),
      names.empty() ? "put `save: " + name + "` behind the layer that is meant" : did_you_mean(name, names));
}

Shape Context::made(const Tensor& x) const {
  const auto found = made_.find(x);
  if (found != made_.end()) return found->second;
  std::vector<Dimension> dimensions;
  for (const Dimension& d : x.shape()) {
    if (d.name != batch_.name) dimensions.push_back(d);
  }
  return Shape(std::move(dimensions));
}

void Context::inherit_made(const Tensor& y, const Tensor& x) {
  const auto found = made_.find(x);
  if (found == made_.end() || made_.contains(y)) return;
  std::vector<Dimension> kept;
  for (const Dimension& d : found->second) {
    if (y.shape().contains(d.name)) kept.push_back(y.shape().dimension(d.name));
  }
  if (!kept.empty()) made_[y] = Shape(std::move(kept));
}

const Dimension& find_dimension(const Tensor& x, const std::string& name) {
  if (x.shape().contains(name)) return x.shape().dimension(name);
  std::vector<std::string> names;
  for (const Dimension& d : x.shape()) names.push_back(d.name);
  throw Error(ErrorKind::kConfig,
              fmt::format("there is no dimension `{}` in {}", name, x.shape().to_string()),
              did_you_mean(name, names));
}

Shape find_dimensions(const Tensor& x, const std::vector<std::string>& names) {
  std::vector<Dimension> dimensions;
  for (const std::string& name : names) dimensions.push_back(find_dimension(x, name));
  return Shape(std::move(dimensions));
}

}  // namespace mtf
