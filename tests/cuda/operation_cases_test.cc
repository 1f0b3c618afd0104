// Every operation of the operation cases and of their gradients, in every floating-point type that the CPU
// supports: the CUDA kernel writes the same as the CPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/cast.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/failure.h"

namespace mtf::testing {
namespace {

/// Adds the gradients of the case's outputs to its inputs.
void add_gradients(CaseBuilder& builder, const Tensors& outputs) {
  Tensors inputs, ys, cotangents;
  for (const auto& operation : builder.graph.root()) {
    if (operation->name() == "input" && is_floating(operation->outputs()[0].dtype))
      inputs.push_back(operation->output());
  }
  for (const Tensor& y : outputs) {
    if (!is_floating(y.dtype())) continue;
    ys.push_back(y);
    const Tensor cotangent = builder.input("cotangent " + std::to_string(ys.size()), y.shape(), 0.5, 1.5);
    cotangents.push_back(cotangent.dtype() == y.dtype() ? cotangent : cast(cotangent, y.dtype()));
  }
  if (!ys.empty() && !inputs.empty()) gradients(ys, inputs, cotangents);
}

void collect(const Block& block, std::vector<const Operation*>& operations) {
  for (const auto& operation : block) {
    if (has_cpu_kernel(operation->name(), operation->kernel_dtype())) operations.push_back(operation.get());
    if (const auto* loop = dynamic_cast<const Repeat*>(operation.get())) collect(loop->body, operations);
  }
}

double tolerance_of(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-10 : dtype == DType::kBFloat16 ? 1e-2 : 1e-5;
}

class Operations : public ::testing::TestWithParam<size_t> {};

TEST_P(Operations, GiveWhatTheProcessorGives) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    Graph graph;
    CaseBuilder builder(graph, dtype);
    try {
      add_gradients(builder, operation_cases()[GetParam()].build(builder));
    } catch (const Error&) {
      ASSERT_NE(dtype, DType::kFloat32);  // the operation does not take this type
      continue;
    }
    std::vector<const Operation*> operations;
    collect(graph.root(), operations);
    Tensors inputs;
    for (const Operation* operation : operations)
      inputs.insert(inputs.end(), operation->inputs().begin(), operation->inputs().end());
    std::vector<Values> values;
    try {
      values = evaluate(graph, inputs, builder.feeds);
    } catch (const Error&) {
      ASSERT_NE(dtype, DType::kFloat32);  // the CPU has no kernel for this type
      continue;
    }
    auto next = values.begin();
    for (const Operation* operation : operations) {
      SCOPED_TRACE(name_of(dtype));
      KernelComparison comparison(operation->output());
      comparison.tolerance = tolerance_of(dtype);
      for (ComparedOperand& input : comparison.inputs) input.values = *next++;
      if (is_for_processors(operation->name())) {
        EXPECT_THAT(failure([&] { comparison.expect_same(); }), ::testing::HasSubstr("has no CUDA kernel"));
        continue;
      }
      comparison.expect_same();
      comparison.in_place = true;
      comparison.iteration = 1;
      comparison.expect_same();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Operations, ::testing::Range<size_t>(0, operation_cases().size()),
                         [](const auto& info) {
                           std::string name = operation_cases()[info.param].operations;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return std::to_string(info.param) + "_" + name;
                         });

}  // namespace
}  // namespace mtf::testing
