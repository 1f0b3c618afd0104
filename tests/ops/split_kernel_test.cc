// Tests kernels on slices: whichever dimension a layout splits, the slices' results together are the whole
// result.
#include "tests/support/split_kernel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/graph/gradients.h"
#include "engine/ops/shift.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

/// Operations of this folder whose kernels depend on where their slice begins, or that arrange their operands
/// themselves.
const std::set<std::string_view> kOperations{
    "concat", "split",          "stack",   "unstack",       "slice",          "pad",
    "shift",  "one_hot",        "range",   "gather",        "cumsum",         "gather_gradient",
    "top_k",  "top_k_gradient", "dropout", "dynamic_shift", "random_uniform", "random_normal"};

/// Returns the names of all dimensions of the operands.
std::set<std::string> dimensions_of(const Operation& operation) {
  std::set<std::string> names;
  for (const Tensor& t : operation.inputs()) {
    for (const Dimension& d : t.shape()) names.insert(d.name);
  }
  for (const OutputInfo& output : operation.outputs()) {
    for (const Dimension& d : output.shape) names.insert(d.name);
  }
  return names;
}

/// Returns whether the layout is legal for this operation and its kernel runs on slices (a split shift is an
/// exchange instead).
bool runs(const Operation& operation, const LayoutRules& rules, const Mesh& mesh) {
  for (const std::string& name : operation.unsplittable()) {
    if (rules.find(name)) return false;
  }
  if (const auto* shift = dynamic_cast<const Shift*>(&operation); shift && rules.find(shift->dimension))
    return false;
  std::vector<Shape> shapes;
  for (const Tensor& t : operation.inputs()) shapes.push_back(t.shape());
  for (const OutputInfo& output : operation.outputs()) shapes.push_back(output.shape);
  for (const LayoutRule& rule : rules.rules()) {
    for (const Shape& shape : shapes) {
      const auto axis = shape.find(rule.dimension);
      if (axis && shape[*axis].size % mesh.size(*mesh.shape().find(rule.mesh_dimensions[0])) != 0)
        return false;
    }
  }
  return true;
}

/// Returns rules that split one dimension over one mesh dimension, or a pair over both.
std::vector<LayoutRules> rules_for(const std::set<std::string>& dimensions) {
  std::vector<LayoutRules> result;
  for (const std::string& a : dimensions) {
    result.push_back(LayoutRules::parse(a + ":cols"));
    for (const std::string& b : dimensions) {
      if (a != b) result.push_back(LayoutRules::parse(a + ":rows;" + b + ":cols"));
    }
  }
  return result;
}

void expect_equal(const Values& actual, const Values& expected, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << what << " at " << i;
  }
}

int check(const Operation& operation, const std::map<std::string, Values>& feeds) {
  const Mesh mesh(Shape::parse("rows:2;cols:2"));
  Tensors outputs;
  for (size_t i = 0; i < operation.outputs().size(); ++i)
    outputs.push_back(operation.output(static_cast<int>(i)));
  const std::vector<Values> inputs = evaluate(operation.graph(), operation.inputs(), feeds);
  const std::vector<Values> expected = evaluate(operation.graph(), outputs, feeds);
  int checked = 0;
  for (const LayoutRules& rules : rules_for(dimensions_of(operation))) {
    if (!runs(operation, rules, mesh)) continue;
    const std::vector<Values> actual = evaluate_split(operation, inputs, mesh, rules);
    for (size_t i = 0; i < expected.size(); ++i) {
      std::string what = fmt::format("{}({})", operation.name(), operation.attributes());
      for (const LayoutRule& rule : rules.rules())
        what += " " + rule.dimension + ":" + rule.mesh_dimensions[0];
      expect_equal(actual[i], expected[i], what);
    }
    ++checked;
  }
  return checked;
}

TEST(SplitKernels, GiveTheWholeResult) {
  std::map<std::string_view, int> checked;
  for (const OperationCase& example : operation_cases()) {
    Graph graph;
    CaseBuilder builder(graph, DType::kFloat32);
    Tensors inputs, outputs;
    for (const Tensor& y : example.build(builder)) {
      if (is_floating(y.dtype())) outputs.push_back(y);
    }
    for (const auto& operation : graph.root()) {
      if (operation->name() == "input" && is_floating(operation->outputs()[0].dtype))
        inputs.push_back(operation->output());
    }
    const bool mine = std::any_of(graph.root().begin(), graph.root().end(), [](const auto& operation) {
      return kOperations.contains(operation->name());
    });
    if (!mine) continue;
    if (!inputs.empty() && !outputs.empty()) gradients(outputs, inputs);
    for (const auto& operation : graph.root()) {
      if (kOperations.contains(operation->name()))
        checked[operation->name()] += check(*operation, builder.feeds);
    }
  }
  for (std::string_view name : kOperations) EXPECT_GT(checked[name], 0) << name;
}

}  // namespace
}  // namespace mtf::testing
