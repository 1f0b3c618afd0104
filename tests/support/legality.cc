#include "tests/support/legality.h"

#include <fmt/format.h>

#include <functional>
#include <set>

#include "engine/graph/structural.h"

namespace mtf::testing {
namespace {

/// Collects the operations on which `tensor` depends, going backwards from it.
void reach(const Tensor& tensor, std::set<const Operation*>& seen) {
  const Operation& operation = tensor.operation();
  if (!seen.insert(&operation).second) return;
  for (const Tensor& input : operation.inputs()) reach(input, seen);
  if (const auto* loop = dynamic_cast<const Repeat*>(&operation)) {
    for (const Tensors* results :
         {&loop->result.carried, &loop->result.sums, &loop->result.placed, &loop->loop_values}) {
      for (const Tensor& t : *results) reach(t, seen);
    }
  }
}

std::set<const Operation*> needed(const Graph& graph) {
  std::set<const Operation*> seen;
  for (const auto& [name, tensor] : graph.outputs()) reach(tensor, seen);
  for (const auto& operation : graph.root()) {
    if (operation->name() != "assign") continue;
    seen.insert(operation.get());
    for (const Tensor& input : operation->inputs()) reach(input, seen);
  }
  return seen;
}

const LayoutRules& rules_of(const Layouts& layouts, Domain domain) {
  return domain == Domain::kActivation  ? layouts.activation
         : domain == Domain::kParameter ? layouts.parameter
                                        : layouts.optimizer;
}

/// The mesh dimensions of all rules for `name` (those of a repeated rule count twice).
std::vector<int> axes_of(const LayoutRules& rules, const Mesh& mesh, const std::string& name) {
  std::vector<int> axes;
  for (const LayoutRule& rule : rules.rules()) {
    if (rule.dimension != name) continue;
    for (const std::string& mesh_dimension : rule.mesh_dimensions)
      axes.push_back(*mesh.shape().find(mesh_dimension));
  }
  return axes;
}

/// True if the boxes of all positions cover every element exactly as often as there are replicas. Dimensions
/// that are not split are irrelevant and left out.
bool covered(const Shape& shape, const LayoutRules& rules, const Mesh& mesh) {
  std::vector<std::vector<int>> axes;
  std::vector<int64_t> sizes;
  for (const Dimension& d : shape) {
    const std::vector<int> split = axes_of(rules, mesh, d.name);
    if (split.empty()) continue;
    int64_t parts = 1;
    for (int axis : split) parts *= mesh.size(axis);
    if (d.size % parts != 0) return false;
    axes.push_back(split);
    sizes.push_back(parts);  // one entry stands for each part
  }
  int64_t cells = 1;
  for (int64_t size : sizes) cells *= size;
  std::set<int64_t> found;
  for (int64_t position = 0; position < mesh.size(); ++position) {
    const std::vector<int64_t> coordinates = mesh.coordinates(position);
    int64_t cell = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      int64_t part = 0;
      for (int axis : axes[i]) part = part * mesh.size(axis) + coordinates[axis];
      cell = cell * sizes[i] + part;
    }
    found.insert(cell);
  }
  return static_cast<int64_t>(found.size()) == cells;
}

/// All dimensions over which an operation iterates at once.
Shape iteration_space(const Operation& operation) {
  Shape space;
  static const std::set<std::string_view> over_all = {"einsum", "multiply", "attention",
                                                      "attention_gradient"};
  if (over_all.contains(operation.name())) {
    for (const Tensor& input : operation.inputs()) space = space + input.shape();
  }
  return space;
}

}  // namespace

std::string why_illegal(const Graph& graph, const Layouts& layouts) {
  const auto bad = [&](const Shape& shape, Domain domain) {
    return !covered(shape, rules_of(layouts, domain), layouts.mesh);
  };
  for (const Operation* operation : needed(graph)) {
    const Domain domain = operation->hints().domain;
    const std::string name(operation->name());
    for (const Tensor& input : operation->inputs()) {
      if (bad(input.shape(), domain)) return name + " input " + input.shape().to_string();
    }
    for (const OutputInfo& output : operation->outputs()) {
      if (bad(output.shape, domain)) return name + " output " + output.shape.to_string();
    }
    if (bad(iteration_space(*operation), domain)) return name + " operands together";
    static const std::set<std::string> unsplittable = {"concat", "split", "stack", "unstack", "slice", "pad"};
    if (!unsplittable.contains(name)) continue;
    // These operations work along the dimensions whose size or presence changes from input to output.
    for (const Tensor& input : operation->inputs()) {
      for (const OutputInfo& output : operation->outputs()) {
        for (const Shape& changed : {input.shape() - output.shape, output.shape - input.shape()}) {
          for (const Dimension& d : changed) {
            if (!axes_of(rules_of(layouts, domain), layouts.mesh, d.name).empty())
              return name + " along " + d.name;
          }
        }
      }
    }
  }
  for (const auto& variable : graph.variables()) {
    if (bad(variable->shape, domain_of(*variable))) return variable->name;
  }
  return {};
}

std::vector<std::string> dimension_names(const Graph& graph) {
  std::set<std::string> names;
  for (const Operation* operation : needed(graph)) {
    for (const Tensor& input : operation->inputs()) {
      for (const Dimension& d : input.shape()) names.insert(d.name);
    }
    for (const OutputInfo& output : operation->outputs()) {
      for (const Dimension& d : output.shape) names.insert(d.name);
    }
  }
  std::erase_if(names, is_internal);
  return {names.begin(), names.end()};
}

std::vector<Layouts> all_layouts(const std::vector<std::string>& names, const std::string& mesh_text) {
  const Mesh mesh(Shape::parse(mesh_text));
  std::vector<Layouts> result;
  std::vector<LayoutRule> rules;
  const std::function<void(size_t)> assign = [&](size_t i) {
    if (i == names.size()) {
      result.push_back(Layouts::make(mesh, LayoutRules(rules)));
      return;
    }
    assign(i + 1);
    for (const Dimension& axis : mesh.shape()) {
      rules.push_back({names[i], {axis.name}, {}});
      assign(i + 1);
      rules.pop_back();
    }
  };
  assign(0);
  return result;
}

std::string describe(const Layouts& layouts) {
  std::string text = layouts.mesh.to_string() + ": ";
  for (const LayoutRule& rule : layouts.activation.rules()) {
    text += rule.dimension + ":";
    for (const std::string& name : rule.mesh_dimensions)
      text += name + (&name == &rule.mesh_dimensions.back() ? "; " : "/");
  }
  return text;
}

}  // namespace mtf::testing
