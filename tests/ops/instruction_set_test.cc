// Every operation of the operation cases and of their gradients, with every instruction set that this machine
// has: results agree up to rounding.
#include "engine/base/instruction_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/graph/gradients.h"
#include "engine/ops/cast.h"
#include "engine/ops/optimizer_updates.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/random_convolution.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "tests/support/with_instruction_set.h"

namespace mtf::testing {
namespace {

/// Returns the outputs, and the gradients of the floating-point inputs.
Tensors with_all_gradients(CaseBuilder& builder, const Tensors& outputs) {
  Tensors inputs, ys, cotangents, all = outputs;
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
  if (ys.empty() || inputs.empty()) return all;
  for (const Tensor& gradient : gradients(ys, inputs, cotangents)) {
    if (gradient) all.push_back(gradient);
  }
  return all;
}

double largest_magnitude(const Values& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::isfinite(value) ? std::abs(value) : 0.0);
  return most;
}

void expect_up_to_rounding(const Values& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  const double scale = std::max(1.0, largest_magnitude(expected));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(expected[i])) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * scale) << "at " << i;
    } else {
      ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << "at " << i;
    }
  }
}

class EveryInstructionSet : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (!test_backend()->is_host()) GTEST_SKIP() << "a device does not run the processor's kernels";
  }
};

TEST_P(EveryInstructionSet, GivesTheSameUpToRounding) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    SCOPED_TRACE(name_of(dtype));
    Graph graph;
    CaseBuilder builder(graph, dtype);
    Tensors tensors;
    std::vector<Values> expected;
    try {
      tensors = with_all_gradients(builder, operation_cases()[GetParam()].build(builder));
      WithInstructionSet portable(InstructionSet::kPortable);
      expected = evaluate(graph, tensors, builder.feeds);
    } catch (const Error&) {
      ASSERT_NE(dtype, DType::kFloat32);  // the operation or its kernel does not take this type
      continue;
    }
    const double tolerance = dtype == DType::kFloat64 ? 1e-10 : dtype == DType::kBFloat16 ? 2e-2 : 1e-5;
    for (const InstructionSet set : available_instruction_sets()) {
      SCOPED_TRACE(name_of(set));
      WithInstructionSet used(set);
      const std::vector<Values> actual = evaluate(graph, tensors, builder.feeds);
      for (size_t i = 0; i < actual.size(); ++i) expect_up_to_rounding(actual[i], expected[i], tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryInstructionSet, ::testing::Range<size_t>(0, operation_cases().size()),
                         [](const auto& info) {
                           std::string name = operation_cases()[info.param].operations;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return std::to_string(info.param) + "_" + name;
                         });

TEST(InstructionSet, ConvolutionsOfFewChannelsAreTheSameUpToRounding) {
  if (!test_backend()->is_host()) GTEST_SKIP() << "a device does not run the processor's kernels";
  for (const auto& [channels, window] : {std::pair{1, 3}, {1, 9}, {1, 17}, {2, 6}, {3, 3}, {3, 7}, {5, 5}}) {
    const RandomConvolution g = convolution_of_few_channels(channels, window);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(g.to_string() + std::string(name_of(dtype)));
      const auto built = build_convolution(g, 1, dtype);
      const auto run = [&](InstructionSet set) {
        WithInstructionSet used(set);
        return run_on_mesh(built->graph, Layouts::single(), built->feeds).outputs;
      };
      const auto expected = run(InstructionSet::kPortable);
      for (const InstructionSet set : available_instruction_sets()) {
        SCOPED_TRACE(name_of(set));
        for (const auto& [name, values] : run(set))
          expect_up_to_rounding(values, expected.at(name), dtype == DType::kFloat32 ? 1e-5 : 2e-2);
      }
    }
  }
}

TEST(InstructionSet, ChoosesTheVersionOfALoop) {
  if (!test_backend()->is_host()) GTEST_SKIP() << "a device does not run the processor's kernels";
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 is rounded to float unless the multiplication is fused.
  Graph graph;
  const Shape shape{{"n", 40}};
  const Tensor w = graph.input("w", shape), g = graph.input("g", shape), rate = graph.input("rate", {});
  const Tensors updated = {sgd_update(w, g, rate)};
  const std::map<std::string, Values> feeds = {
      {"w", Values(40, 1 + 0x1p-11)}, {"g", Values(40, 1 + 0x1p-12)}, {"rate", {1 + 0x1p-12}}};
  for (const InstructionSet set : available_instruction_sets()) {
    WithInstructionSet used(set);
    const double expected = set == InstructionSet::kPortable ? 0 : -0x1p-24;
    EXPECT_EQ(evaluate(graph, updated, feeds)[0], Values(40, expected)) << name_of(set);
  }
}

TEST(InstructionSet, TheBestOneIsTheFirst) {
  const auto& sets = available_instruction_sets();
  EXPECT_TRUE(std::is_sorted(sets.rbegin(), sets.rend()));
  EXPECT_EQ(sets.back(), InstructionSet::kPortable);
  EXPECT_TRUE(is_available(InstructionSet::kPortable));
  EXPECT_EQ(instruction_set(), sets.front());
}

TEST(InstructionSet, MatrixProductsUseTheKernelsOfTheSet) {
  const int64_t depth = 100;
  std::vector<float> a(depth), b(depth);
  for (int64_t k = 0; k < depth; ++k) {
    a[k] = std::sin(static_cast<float>(k));
    b[k] = std::cos(static_cast<float>(3 * k));
  }
  const SummedAxis summed{depth, 1, 1};
  for (const InstructionSet set : available_instruction_sets()) {
    WithInstructionSet used(set);
    std::vector<float> scratch(product_scratch(1, 1, depth));
    float chosen = 0, own = 0;
    multiply(Product<float>{1, 1, {&summed, 1}, a.data(), 0, b.data(), 0, &chosen, 1}, scratch.data());
    multiply(Product<float>{1, 1, {&summed, 1}, a.data(), 0, b.data(), 0, &own, 1}, scratch.data(),
             gemm_kernels(set));
    EXPECT_EQ(chosen, own) << name_of(set);
  }
}

}  // namespace
}  // namespace mtf::testing
