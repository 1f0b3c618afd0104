// Compares the gradient of every operation that has an example with central differences in float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <sstream>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

void PrintTo(const OperationCase& operation_case, std::ostream* stream) {
  *stream << operation_case.operations;
}
namespace {

/// Operations that stop gradients on purpose, although they depend on their inputs.
const std::set<std::string> kWithoutGradient = {"stop_gradient"};

std::string first_name(const OperationCase& operation_case) {
  return operation_case.operations.substr(0, operation_case.operations.find(' '));
}

struct NamedInput {
  std::string name;
  Tensor tensor;
};

std::vector<NamedInput> floating_inputs(const Graph& graph) {
  std::vector<NamedInput> result;
  for (const auto& operation : graph.root()) {
    const auto* input = dynamic_cast<const Input*>(operation.get());
    if (input && is_floating(input->outputs()[0].dtype))
      result.push_back({input->input_name, input->output()});
  }
  return result;
}

double inner_product(const std::vector<Values>& a, const std::vector<Values>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < a[i].size(); ++k) sum += a[i][k] * b[i][k];
  }
  return sum;
}

/// Computes d <ys, cts> / d feeds[input], one element at a time.
Values central_differences(const Graph& graph, const Tensors& ys, const std::vector<Values>& cts,
                           std::map<std::string, Values> feeds, const std::string& input) {
  constexpr double kStep = 1e-5;
  Values result;
  for (size_t i = 0; i < feeds[input].size(); ++i) {
    const double x = feeds[input][i];
    feeds[input][i] = x + kStep;
    const double above = inner_product(evaluate(graph, ys, feeds), cts);
    feeds[input][i] = x - kStep;
    const double below = inner_product(evaluate(graph, ys, feeds), cts);
    feeds[input][i] = x;
    result.push_back((above - below) / (2 * kStep));
  }
  return result;
}

class Gradient : public ::testing::TestWithParam<OperationCase> {
 protected:
  static Tensors floating_outputs(CaseBuilder& build) {
    Tensors result;
    for (const Tensor& y : GetParam().build(build)) {
      if (is_floating(y.dtype())) result.push_back(y);
    }
    return result;
  }
};

TEST_P(Gradient, IsThatOfCentralDifferences) {
  Graph graph, forward;  // the differences need no backward pass
  CaseBuilder build(graph, DType::kFloat64), build_forward(forward, DType::kFloat64);
  const Tensors ys = floating_outputs(build), forward_ys = floating_outputs(build_forward);
  const std::vector<NamedInput> xs = floating_inputs(graph);
  if (ys.empty() || xs.empty()) return;  // integers have no gradient

  std::mt19937 generator(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::map<std::string, Values> feeds = build.feeds;
  std::vector<Values> cts;
  Tensors grad_ys;
  for (size_t i = 0; i < ys.size(); ++i) {
    Values ct(ys[i].shape().size());
    for (double& v : ct) v = uniform(generator);
    const std::string name = "cotangent " + std::to_string(i);
    grad_ys.push_back(graph.input(name, ys[i].shape(), ys[i].dtype()));
    feeds[name] = ct;
    cts.push_back(std::move(ct));
  }
  Tensors inputs;
  for (const NamedInput& x : xs) inputs.push_back(x.tensor);
  const Tensors grad_xs = gradients(ys, inputs, grad_ys);
  for (size_t i = 0; i < xs.size(); ++i) {
    Values analytic(xs[i].tensor.shape().size(), 0.0);
    if (grad_xs[i]) {
      EXPECT_EQ(grad_xs[i].shape(), xs[i].tensor.shape());
      EXPECT_EQ(grad_xs[i].dtype(), DType::kFloat64);
      analytic = evaluate(graph, {grad_xs[i]}, feeds)[0];
    }
    Values numeric(analytic.size(), 0.0);
    if (!kWithoutGradient.contains(first_name(GetParam()))) {
      numeric = central_differences(forward, forward_ys, cts, build_forward.feeds, xs[i].name);
    }
    expect_close("gradient of " + first_name(GetParam()) + " to " + xs[i].name, analytic, numeric, 1e-6,
                 1e-7);
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, Gradient, ::testing::ValuesIn(operation_cases()), [](const auto& info) {
  return first_name(info.param) + "_" + std::to_string(info.index);
});

TEST(OperationCases, CoverTheUnaryOperations) {
  std::set<std::string> covered;
  for (const OperationCase& operation_case : operation_cases()) {
    std::istringstream names(operation_case.operations);
    for (std::string name; names >> name;) covered.insert(name);
  }
  for (const char* name : {"relu", "gelu_gradient", "add", "where", "reduce_sum", "transpose"}) {
    EXPECT_TRUE(covered.contains(name)) << name;
  }
}

}  // namespace
}  // namespace mtf::testing
