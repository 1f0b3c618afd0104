// Every contraction of the operation cases, and its gradients, multiplies factors in bfloat16 where the graph asks for it: of
// numbers that bfloat16 holds it gives the products in full precision, and of others those of the rounded ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/graph/gradients.h"
#include "engine/ops/cast.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/test_backend.h"

namespace mtf::testing {
namespace {

double to_bfloat16(double x) { return static_cast<float>(BFloat16(static_cast<float>(x))); }

/// The results of a case, and their gradients by all inputs of floating-point numbers.
std::vector<Values> results_of(const OperationCase& c, MatmulPrecision precision, DType dtype,
                               bool round_inputs) {
  Graph graph;
  graph.set_matmul_precision(precision);
  CaseBuilder builder(graph, dtype);
  Tensors tensors = c.build(builder), inputs, cotangents;
  for (const auto& operation : graph.root()) {
    if (operation->name() == "input" && is_floating(operation->outputs()[0].dtype))
      inputs.push_back(operation->output());
  }
  for (const Tensor& y : tensors) {
    const std::string name = "cotangent " + std::to_string(cotangents.size());
    cotangents.push_back(cast(builder.input(name, y.shape(), 0.5, 1.5), y.dtype()));
  }
  for (const Tensor& gradient : gradients(tensors, inputs, cotangents)) {
    if (gradient) tensors.push_back(gradient);
  }
  if (round_inputs) {
    for (auto& [name, values] : builder.feeds) std::ranges::transform(values, values.begin(), to_bfloat16);
  }
  return evaluate(graph, tensors, builder.feeds);
}

double largest_difference(const std::vector<Values>& a, const std::vector<Values>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) most = std::max(most, std::abs(a[i][j] - b[i][j]));
  }
  return most;
}

class RoundedProducts : public ::testing::TestWithParam<OperationCase> {};

TEST_P(RoundedProducts, AreThoseOfRoundedFactors) {
  const OperationCase& c = GetParam();
  using enum MatmulPrecision;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::vector<Values> full = results_of(c, kFull, dtype, true);
    EXPECT_LT(largest_difference(results_of(c, kBFloat16, dtype, true), full),
              dtype == DType::kFloat32 ? 1e-5 : 4e-2);
  }
  const std::vector<Values> exact = results_of(c, kFull, DType::kFloat32, false);
  const double error = largest_difference(results_of(c, kBFloat16, DType::kFloat32, false), exact);
  // A GPU need not round: the library chooses for each product, and products of experts stay in full precision.
  const bool is_host = test_backend()->is_host();
  if (is_host) {
    EXPECT_GT(error, 1e-5);
  }
  EXPECT_LT(error, 0.1);
  EXPECT_LE(largest_difference(results_of(c, kTf32, DType::kFloat32, false), exact),
            is_host ? 0 : 0.02);  // the CPU ignores it
}

/// The cases of one contraction that has a precision: of several, one would round the results of another.
std::vector<OperationCase> contractions() {
  std::vector<OperationCase> cases;
  for (const OperationCase& c : operation_cases()) {
    if (c.operations != "einsum" && !c.operations.starts_with("expert") &&
        !c.operations.starts_with("convolution"))
      continue;
    Graph graph;
    graph.set_matmul_precision(MatmulPrecision::kBFloat16);
    CaseBuilder builder(graph, DType::kFloat32);
    c.build(builder);
    if (std::ranges::count_if(graph.root(), [](const auto& operation) {
          return operation->attributes().ends_with("bf16");
        }) == 1)
      cases.push_back(c);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, RoundedProducts, ::testing::ValuesIn(contractions()));

}  // namespace
}  // namespace mtf::testing
