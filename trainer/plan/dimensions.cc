#include "trainer/plan/dimensions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "trainer/config/auto_layout.h"

namespace mtf {
namespace {

struct Occurrences {
  int64_t divisor = 0;
  double elements = 0;
  std::set<std::string> companions;  ///< other dimensions of the same tensors and operations
};

/// The dimension whose rule splits `name`: `experts` for `experts\\batch` (split_apart).
std::string_view ruled(std::string_view name) { return name.substr(0, name.find('\\')); }

class Collection {
 public:
  void add(const Graph& graph) {
    for_each_live_operation(graph, [this](const Operation& operation) {
      for (const OutputInfo& output : operation.outputs()) add(output.shape);
      for (const Tensor& input : operation.inputs()) add(input.shape());
      add(operation.joint_shape());
      for (const std::string& name : operation.unsplittable()) unsplittable_.insert(name);
    });
    for (const auto& variable : graph.variables()) add(variable->shape);
  }

  std::map<std::string, Occurrences> splittable() && {
    std::erase_if(by_name_, [this](const auto& entry) {
      return entry.second.divisor == 1 || !takes_rules(entry.first) || unsplittable_.contains(entry.first);
    });
    return std::move(by_name_);
  }

 private:
  void add(const Shape& shape) {
    for (const Dimension& dimension : shape) {
      Occurrences& known = by_name_[dimension.name];
      known.divisor = std::gcd(known.divisor, dimension.size);
      known.elements += static_cast<double>(shape.size());
      for (const Dimension& other : shape) {
        if (other.name != dimension.name) known.companions.insert(other.name);
      }
    }
  }

  std::map<std::string, Occurrences> by_name_;
  std::set<std::string> unsplittable_;
};

}  // namespace

SplittableDimensions::SplittableDimensions(const std::vector<const Graph*>& graphs) {
  Collection collection;
  for (const Graph* graph : graphs) collection.add(*graph);
  const std::map<std::string, Occurrences> by_name = std::move(collection).splittable();
  for (const auto& [name, known] : by_name) dimensions_.push_back({name, known.divisor, known.elements, {}});
  std::ranges::stable_sort(dimensions_, std::greater<>(), &SplittableDimension::elements);
  if (dimensions_.size() > kMostDimensions) {
    are_cut_ = true;
    dimensions_.resize(kMostDimensions);
  }
  for (SplittableDimension& dimension : dimensions_) {
    for (const std::string& other : by_name.at(dimension.name).companions) {
      if (const std::optional<size_t> i = find(other)) dimension.conflicts.set(*i);
    }
  }
}

std::optional<size_t> SplittableDimensions::find(std::string_view name) const {
  const auto found = std::ranges::find(dimensions_, name, &SplittableDimension::name);
  if (found == dimensions_.end()) return std::nullopt;
  return static_cast<size_t>(found - dimensions_.begin());
}

DimensionSet SplittableDimensions::of(const Shape& shape) const {
  DimensionSet set;
  for (const Dimension& dimension : shape) {
    if (const std::optional<size_t> i = find(ruled(dimension.name))) set.set(*i);
  }
  return set;
}

}  // namespace mtf
