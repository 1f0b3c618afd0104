// Tests gradients of float32 weights that are used as bfloat16.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/normalization.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension kRows{"rows", 512}, kInputs{"inputs", 8}, kOutputs{"outputs", 4};

/// Returns numbers that bfloat16 represents exactly, unlike their sums.
Values numbers(int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 37 % 101 - 50) / 64);
  return values;
}

using Use = Tensor (*)(const Tensor& x, const Tensor& weight);

/// Returns the gradient of sum(use(x, w) * dy) for a float32 weight read as `dtype`.
Values gradient(Use use, const Shape& weight, DType dtype, const Layouts& layout = Layouts::single(),
                Program* program = nullptr) {
  Graph graph;
  const Tensor x = graph.input("x", {kRows, kInputs});
  const Tensor read = graph.read(graph.variable("w", weight, DType::kFloat32, Initializer::ones()));
  const Tensor y = use(cast(x, dtype), cast(read, dtype));
  const Tensor dy = cast(graph.input("dy", y.shape()), dtype);
  const Tensor loss = reduce_sum(cast(multiply(y, dy), DType::kFloat32), Shape{});
  const Tensor result = gradients({loss}, {read})[0];
  EXPECT_EQ(result.dtype(), DType::kFloat32);
  graph.set_output("gradient", result);
  const MeshRun run =
      run_on_mesh(graph, layout, {{"x", numbers(x.shape().size())}, {"dy", numbers(y.shape().size())}});
  if (program) *program = run.program;
  return run.outputs.at("gradient");
}

Tensor product(const Tensor& x, const Tensor& w) { return einsum({x, w}, Shape{kRows, kOutputs}); }
Tensor product_of_reshaped(const Tensor& x, const Tensor& w) {
  return product(x, reshape(w, {kInputs, kOutputs}));
}
Tensor product_of_two_uses(const Tensor& x, const Tensor& w) { return add(product(x, w), product(x, w)); }
Tensor bias(const Tensor& x, const Tensor& w) { return add(x, w, x.shape()); }
Tensor look_up(const Tensor& x, const Tensor& w) {
  const Tensor ids = modulo(range(x.graph(), kRows), x.graph().constant(kInputs.size, DType::kInt32));
  return gather(w, ids, "inputs");
}

struct Case {
  const char* name;
  Use use;
  Shape weight;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class WideGradient : public ::testing::TestWithParam<Case> {};

TEST_P(WideGradient, IsNotRoundedToBfloat16) {
  const auto [name, use, weight] = GetParam();
  const Values exact = gradient(use, weight, DType::kFloat32);
  EXPECT_LT(relative_difference(gradient(use, weight, DType::kBFloat16), exact), 1e-6);
}

TEST_P(WideGradient, PartialSumsAreAddedInFloat32) {
  const auto [name, use, weight] = GetParam();
  Program program;
  const Values exact = gradient(use, weight, DType::kFloat32);
  const Values split = gradient(use, weight, DType::kBFloat16, layouts("x:4", "rows:x"), &program);
  EXPECT_LT(relative_difference(split, exact), 1e-6);
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.collective<action::AllReduce>()) continue;
    for (const ValueId id : instruction.outputs) EXPECT_EQ(program.values[id].dtype, DType::kFloat32);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sums, WideGradient,
    ::testing::Values(Case{"product", product, {kInputs, kOutputs}},
                      Case{"product_of_reshaped", product_of_reshaped, {{"both", 32}}},
                      Case{"product_of_two_uses", product_of_two_uses, {kInputs, kOutputs}},
                      Case{"bias", bias, {kInputs}}, Case{"look_up", look_up, {kInputs, kOutputs}}),
    [](const auto& info) { return info.param.name; });

TEST(WideGradient, VariablesAtRestMayBeSplitAlongTheirColumns) {
  const Values exact = gradient(product, {kInputs, kOutputs}, DType::kFloat32);
  const Values split =
      gradient(product, {kInputs, kOutputs}, DType::kBFloat16, layouts("x:4", "rows:x", "outputs:x"));
  EXPECT_LT(relative_difference(split, exact), 1e-6);
}

TEST(WideGradient, NormalisationGivesItsFloat32Sums) {
  const auto normalised = [](const Tensor& x, const Tensor& w) { return rms_norm(x, "inputs", w, 1e-6); };
  const Values narrow = gradient(normalised, {kInputs}, DType::kBFloat16);
  const Values exact = gradient(normalised, {kInputs}, DType::kFloat32);
  EXPECT_LT(relative_difference(narrow, exact), 1e-4);
}

}  // namespace
}  // namespace mtf::testing
