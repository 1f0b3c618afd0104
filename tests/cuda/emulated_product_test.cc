// Contractions on a device whose matmul library lacks algorithms: what prepared_product.h does instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/contractions/prepared_product.h"
#include "engine/ops/einsum.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/emulated_gpu/matmul_limits.h"

namespace mtf::testing {
namespace {

using cuda::emulator::MatmulLimits;
using ::testing::HasSubstr;

class LimitedProducts : public ::testing::TestWithParam<MatmulLimits> {
 protected:
  void SetUp() override { cuda::emulator::matmul_limits() = GetParam(); }
  void TearDown() override { cuda::emulator::matmul_limits() = {}; }
};

void expect_close(const Tensor& output) {
  KernelComparison comparison(output);
  comparison.tolerance = output.dtype() == DType::kBFloat16 ? 2e-2 : 1e-5;
  comparison.expect_same();
}

TEST_P(LimitedProducts, AreThoseOfTheProcessor) {
  const Dimension batch{"batch", 3}, rows{"rows", 37}, columns{"columns", 45}, summed{"summed", 70};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    Graph graph;
    const auto input = [&](const char* name, const Shape& shape) { return graph.input(name, shape, dtype); };
    const Tensor x = input("x", {batch, rows, summed}), w = input("w", {summed, columns}),
                 each = input("each", {batch, columns, summed}), vector = input("vector", {summed});
    expect_close(einsum({x, w}, {batch, rows, columns}));
    expect_close(einsum({x, w}, {columns, rows, batch}));
    expect_close(einsum({x, each}, {batch, rows, columns}));
    expect_close(einsum({x, each}, {rows, columns}));
    expect_close(einsum({x, vector}, {rows, batch}));
    expect_close(einsum({vector, w}, Shape{columns}));
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, LimitedProducts,
                         ::testing::Values(MatmulLimits{}, MatmulLimits{.epilogues = false},
                                           MatmulLimits{.epilogues = false, .alignment = 16},
                                           MatmulLimits{.products = false}));

/// The contraction of a dense layer in bfloat16 with 45 rows, 37 columns and a bias, from row 1 on of a larger tensor.
cuda::Contraction dense() {
  cuda::Contraction contraction;
  contraction.rows = {{45, {70, 0, 37, 0}}};
  contraction.columns = {{37, {0, 1, 1, 1}}};
  contraction.summed = {{70, {1, 37, 0, 0}}};
  contraction.input = contraction.output = DType::kBFloat16;
  contraction.bias = true;
  return contraction;
}

TEST(PreparedProduct, TriesWhatIsLeftInOrder) {
  struct Case {
    MatmulLimits limits;
    bool by_library, packs_output, packs_all;
    const char* note;
  };
  const Case kCases[] = {
      {{}, true, false, false, ""},
      {{.epilogues = false}, false, true, false, "bias and activation are applied by a separate kernel"},
      {{.epilogues = false, .alignment = 16},
       false,
       true,
       true,
       "operands are copied to aligned memory first"},
      {{.products = false}, false, true, false, "a slow kernel computes it"}};
  for (const auto& [limits, by_library, packs_output, packs_all, note] : kCases) {
    SCOPED_TRACE(note);
    const auto device = cuda::open_device(0);
    cuda::emulator::matmul_limits() = limits;
    const cuda::PreparedProduct product = prepare_product(dense(), false, *device);
    prepare_product(dense(), false, *device);
    cuda::emulator::matmul_limits() = {};
    EXPECT_EQ(product.plan.problem.bias, by_library);
    EXPECT_EQ(product.plan.packed[cuda::kOut].has_value(), packs_output);
    EXPECT_EQ(product.plan.packed[cuda::kA] && product.plan.packed[cuda::kB], packs_all);
    const auto notes = device->take_notes();
    ASSERT_EQ(notes.size(), *note == 0 ? 0u : 1u) << "once for each problem";
    if (*note == 0) continue;
    EXPECT_THAT(notes[0].text,
                HasSubstr("emulated has no algorithm for a product of 45 x 37 x 70 bfloat16: "));
    EXPECT_THAT(notes[0].text, HasSubstr(note));
    EXPECT_EQ(notes[0].is_warning, !limits.products);
  }
}

}  // namespace
}  // namespace mtf::testing
