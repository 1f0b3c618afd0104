#include "engine/ops/einsum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/ops/binary.h"
#include "engine/ops/fused_einsum.h"
#include "engine/ops/unary.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"

namespace mtf::testing {
namespace {

void expect_same(const Shape& a, const Shape& b, const Shape& output, DType input, DType result) {
  SCOPED_TRACE(a.to_string() + " " + b.to_string() + " -> " + output.to_string() + " " +
               std::string(short_name(input)) + " to " + std::string(short_name(result)));
  Graph graph;
  const auto& einsum =
      graph.add<Einsum>(graph.input("a", a, input), graph.input("b", b, input), output, result);
  KernelComparison comparison(einsum.output());
  const auto products = static_cast<double>((a + b - output).size());
  // The n partial sums are about sqrt(n), and their rounding errors add up like sqrt(n).
  comparison.tolerance = (input == DType::kFloat64 ? 1e-15 : 1e-6) * (10 + products / 16);
  comparison.expect_same();
}

void expect_same(const Shape& a, const Shape& b, const Shape& output) {
  expect_same(a, b, output, DType::kFloat32, DType::kFloat32);
  expect_same(a, b, output, DType::kFloat64, DType::kFloat64);
  expect_same(a, b, output, DType::kBFloat16, DType::kBFloat16);
  expect_same(a, b, output, DType::kBFloat16, DType::kFloat32);
}

const Dimension b{"b", 3}, h{"h", 2}, i{"i", 33}, j{"j", 17}, k{"k", 40}, l{"l", 5};

TEST(Einsum, MultipliesMatricesInAnyOrder) {
  expect_same({i, k}, {k, j}, {i, j});
  expect_same({k, i}, {j, k}, {i, j});
  expect_same({i, k}, {j, k}, {j, i});
  expect_same({b, i, k}, {k, j}, {b, i, j});
  expect_same({b, i, k}, {b, i, j}, {k, j});
  expect_same({b, i, h, k}, {b, j, h, k}, {b, h, i, j});
}

TEST(Einsum, CopiesOperandsThatAreNoMatrices) {
  expect_same({i, k, b}, {b, k, j}, {b, i, j});
  expect_same({b, i, k}, {k, j, b}, {b, i, j});
  expect_same({b, i, k}, {b, k, j}, {i, j, b});
  expect_same({i, k, b}, {k, b, j}, {i, j, b});
  expect_same({h, i, b, k}, {k, j}, {b, j, h, i});
}

TEST(Einsum, AddsProductsOfSeveralCalls) {
  // b has the summed dimensions in another order, and a copy of it would be large.
  const Dimension inner{"inner", 512}, rows{"rows", 33}, columns{"columns", 65};
  for (const DType input : {DType::kFloat32, DType::kBFloat16})
    expect_same({rows, h, inner}, {inner, h, columns}, {rows, columns}, input, DType::kFloat32);
}

TEST(Einsum, HandlesVectors) {
  const Dimension one{"one", 1};
  expect_same({i, k}, {k}, {i});
  expect_same({k}, {k, j}, {j});
  expect_same({i, one}, {one, j}, {i, j});
  expect_same({i, one}, {one, j}, {j, i});
  expect_same({b, i, k}, {b, k}, {i, b});
}

TEST(Einsum, SumsInnerProducts) {
  expect_same({k}, {k}, {});
  expect_same({b, i, k}, {b, i, k}, {b, i});
  expect_same({b, i, k}, {k, i, b}, {b, i});
  expect_same({k, b, i}, {k, b, i}, {b, i});
  expect_same({k, i}, {k, i}, {i});
  expect_same({i, l, b}, {b, l, i}, {i, b});
  expect_same({b, k}, {k, b}, {b});
  // These sums have several chunks.
  const Dimension many{"many", 5000};
  expect_same({many}, {many}, {});
  expect_same({b, many}, {b, many}, {b});
  expect_same({many, l}, {many, l}, {l});
}

/// The output of a prepared kernel in this iteration; the output's memory holds `before`.
Values run_kernel(const KernelContext& context, const std::vector<Values>& inputs, const Values& before,
                  int64_t iteration) {
  const std::unique_ptr<Kernel> kernel = cuda_device().prepare(context);
  std::vector<GuardedMemory> memory;
  for (size_t n = 0; n < inputs.size(); ++n)
    memory.emplace_back(bytes_of(inputs[n], context.inputs[n].dtype));
  const DType dtype = context.outputs[0].dtype;
  memory.emplace_back(bytes_of(before, dtype));
  GuardedMemory scratch(std::vector<std::byte>(kernel->scratch_bytes()));
  std::vector<Slice> slices;
  for (GuardedMemory& operand : memory) slices.push_back({operand.data(), nullptr});
  KernelCall call;
  call.inputs = {slices.data(), inputs.size()};
  call.outputs = {&slices.back(), 1};
  call.scratch = scratch.data();
  call.iteration = iteration;
  const Operation& operation = context.operation;
  EXPECT_EQ(kernel->run(call, 0, 1),
            2 * (operation.inputs()[0].shape() + operation.inputs()[1].shape()).size());
  return values_of(memory.back().read(), dtype);
}

KernelContext context_of(const Operation& operation) {
  const auto whole = [](const Shape& shape, DType dtype) {
    return LocalTensor{shape, shape, shape.strides(), dtype};
  };
  KernelContext context{operation, {}, {}};
  for (const Tensor& input : operation.inputs())
    context.inputs.push_back(whole(input.shape(), input.dtype()));
  for (const OutputInfo& output : operation.outputs())
    context.outputs.push_back(whole(output.shape, output.dtype));
  return context;
}

Values whole_numbers(const Shape& shape, uint32_t seed) {
  return random_whole_values(shape.size(), -4, 5, seed);
}

TEST(Einsum, AddsToTheOutputExceptInTheFirstIteration) {
  struct Case {
    Shape a, b, output;
  };
  const Case cases[] = {{{b, i, k}, {b, i, j}, {k, j}},     // in place
                        {{b, i, k}, {k, j, b}, {i, j}},     // by several calls or copies
                        {{i, k, b}, {k, b, j}, {i, j, b}},  // from scratch
                        {{b, k}, {k, b}, {b}}};             // inner products
  for (const auto& [a, b, output] : cases) {
    SCOPED_TRACE(a.to_string() + " " + b.to_string() + " -> " + output.to_string());
    Graph graph;
    const auto& einsum = graph.add<Einsum>(graph.input("a", a), graph.input("b", b), output);
    KernelContext context = context_of(einsum);
    context.accumulates = true;
    const std::vector<Values> inputs = {whole_numbers(a, 1), whole_numbers(b, 2)};
    const Values before = whole_numbers(output, 3);
    const Values first = run_kernel(context, inputs, before, 0),
                 second = run_kernel(context, inputs, before, 1);
    const Values expected = evaluate(graph, {einsum.output()}, {{"a", inputs[0]}, {"b", inputs[1]}})[0];
    EXPECT_EQ(first, expected);
    for (size_t n = 0; n < before.size(); ++n) ASSERT_EQ(second[n], before[n] + expected[n]) << n;
  }
}

/// Uses whole numbers up to 256, which are exact in bfloat16.
void expect_fused(const Shape& a, const Shape& b, const Shape& output, const Shape& bias, bool has_bias,
                  bool has_addend, std::optional<UnaryFunction> activation, DType dtype) {
  Graph graph;
  const auto& einsum = graph.add<Einsum>(graph.input("a", a, dtype), graph.input("b", b, dtype), output);
  const Tensor added = has_bias ? graph.input("bias", bias, dtype) : Tensor();
  const Tensor addend = has_addend ? graph.input("addend", output, dtype) : Tensor();
  const FusedEinsum fused(einsum, {added, addend, activation});
  SCOPED_TRACE(a.to_string() + " " + b.to_string() + " -> " + output.to_string() + " " + fused.attributes());
  std::vector<Values> inputs = {whole_numbers(a, 1), whole_numbers(b, 2)};
  std::map<std::string, Values> feeds = {{"a", inputs[0]}, {"b", inputs[1]}};
  Tensor y = einsum.output();
  if (has_bias) {
    inputs.push_back(feeds["bias"] = whole_numbers(bias, 3));
    y = add(y, added, output);
  }
  if (has_addend) {
    inputs.push_back(feeds["addend"] = whole_numbers(output, 4));
    y = add(y, addend);
  }
  if (activation) y = *activation == UnaryFunction::kGelu ? gelu(y) : relu(y);
  const Values expected = evaluate(graph, {y}, feeds)[0], before(expected.size(), kNaN);
  for (const bool guarded : {false, true}) {
    KernelContext context = context_of(fused);
    context.guarded = guarded;
    expect_close(guarded ? "guarded" : "fused", run_kernel(context, inputs, before, 0), expected,
                 dtype == DType::kBFloat16 ? 1e-2 : 1e-6);
  }
}

TEST(FusedEinsum, DoesWhatTheOperationsDoOneByOne) {
  const Dimension few{"few", 6};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::optional<UnaryFunction> activation :
         {std::optional<UnaryFunction>(), std::optional(UnaryFunction::kGelu),
          std::optional(UnaryFunction::kRelu)}) {
      for (const int terms : {0, 1, 2, 3}) {
        const bool bias = terms & 1, addend = terms & 2;
        expect_fused({b, i, few}, {few, j}, {b, i, j}, {j}, bias, addend, activation, dtype);
        expect_fused({i, few}, {j, few}, {j, i}, {j}, bias, addend, activation, dtype);
        expect_fused({b, i, few}, {few, h, j}, {b, i, h, j}, {h, j}, bias, addend, activation, dtype);
        expect_fused({b, i, few}, {few, h, j}, {b, i, h, j}, {j, h}, bias, addend, activation, dtype);
        expect_fused({b, i, few}, {b, few, j}, {i, j, b}, {b, j}, bias, addend, activation, dtype);
        expect_fused({i, b, few}, {few, b}, {i}, {}, bias, addend, activation, dtype);
        expect_fused({b, few}, {few, b}, {b}, {b}, bias, addend, activation, dtype);
      }
    }
  }
}

TEST(FusedEinsum, AddsAFloat32Addend) {
  for (const DType input : {DType::kBFloat16, DType::kFloat64}) {
    const DType output = input == DType::kBFloat16 ? DType::kFloat32 : input;
    Graph graph;
    const auto& einsum = graph.add<Einsum>(graph.input("a", {b, i, k}, input),
                                           graph.input("b", {k, j}, input), Shape{b, i, j}, output);
    const FusedEinsum fused(einsum, {.addend = graph.input("addend", {b, i, j}, output)});
    const std::vector<Values> inputs = {whole_numbers({b, i, k}, 1), whole_numbers({k, j}, 2),
                                        whole_numbers({b, i, j}, 3)};
    const Values y = run_kernel(context_of(fused), inputs, Values(inputs[2].size(), kNaN), 0);
    const Values product = evaluate(graph, {einsum.output()}, {{"a", inputs[0]}, {"b", inputs[1]}})[0];
    for (size_t n = 0; n < y.size(); ++n) ASSERT_EQ(y[n], product[n] + inputs[2][n]) << n;
  }
}

TEST(FusedEinsum, KeepsNaN) {
  Graph graph;
  const auto& einsum = graph.add<Einsum>(graph.input("a", {i, k}), graph.input("b", {k, j}), Shape{i, j});
  Values a = whole_numbers({i, k}, 1);
  a[0] = kNaN;
  const FusedEinsum fused(einsum, {.activation = UnaryFunction::kGelu});
  const Values y = run_kernel(context_of(fused), {a, whole_numbers({k, j}, 2)}, Values(i.size * j.size), 0);
  for (int64_t n = 0; n < i.size * j.size; ++n) EXPECT_EQ(std::isnan(y[n]), n < j.size) << n;
}

TEST(Einsum, GivesTheValuesOfTheCpuForRandomContractions) {
  std::mt19937 generator(1);
  constexpr std::pair<DType, DType> kTypes[] = {{DType::kFloat32, DType::kFloat32},
                                                {DType::kFloat64, DType::kFloat64},
                                                {DType::kBFloat16, DType::kBFloat16},
                                                {DType::kBFloat16, DType::kFloat32}};
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Dimension> dimensions[3];  // dimensions of a, b and the output
    const auto add = [&](const char* name, int least, std::initializer_list<int> operands) {
      const int count = std::uniform_int_distribution<int>(least, 2)(generator);
      for (int n = 0; n < count; ++n) {
        const Dimension d{name + std::to_string(n), std::uniform_int_distribution<int64_t>(1, 7)(generator)};
        for (int operand : operands) dimensions[operand].push_back(d);
      }
    };
    add("batch", 0, {0, 1, 2});
    add("row", 0, {0, 2});
    add("column", 0, {1, 2});
    add("summed", 1, {0, 1});
    for (auto& operand : dimensions) std::shuffle(operand.begin(), operand.end(), generator);
    const auto [input, result] = kTypes[trial % 4];
    expect_same(Shape(dimensions[0]), Shape(dimensions[1]), Shape(dimensions[2]), input, result);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mtf::testing
