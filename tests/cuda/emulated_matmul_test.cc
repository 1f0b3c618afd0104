// Products of the emulated GPU, compared with plain sums of products.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/element.h"
#include "tests/cuda/device_array.h"

namespace mtf::cuda {
namespace {

using testing::DeviceArray;

template <class T>
std::vector<T> random_values(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = narrow<T>(uniform(random));
  return values;
}

/// The number of elements spanned by `batch` matrices of `rows` rows.
int64_t extent(int64_t batch, int64_t batch_stride, int64_t rows, int64_t row) {
  return (batch - 1) * batch_stride + rows * row;
}

/// With `apart` the addend of an accumulating product has memory of its own.
template <class Input, class Output>
void expect_product(const MatmulProblem& p, double tolerance, bool apart = false) {
  const auto device = open_device(0);
  const auto a = random_values<Input>(extent(p.batch, p.batch_a, p.transpose_a ? p.k : p.m, p.row_a), 1);
  const auto b = random_values<Input>(extent(p.batch, p.batch_b, p.transpose_b ? p.n : p.k, p.row_b), 2);
  const auto c = random_values<Output>(extent(p.batch, p.batch_c, p.m, p.row_c), 3);
  const auto bias = random_values<Output>(p.n, 4);
  const auto addend = apart ? random_values<Output>(std::ssize(c), 5) : c;
  const DeviceArray<Input> device_a(*device, a), device_b(*device, b);
  const DeviceArray<Output> device_c(*device, c), device_bias(*device, bias), device_addend(*device, addend);
  const auto matmul = device->matmuls().prepare(p);
  const DeviceArray<char> workspace(*device, matmul->workspace_bytes());
  matmul->run(device_a.data(), device_b.data(), device_c.data(), workspace.data(),
              p.bias ? device_bias.data() : nullptr, apart ? device_addend.data() : nullptr);

  std::vector<Output> expected = c;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          const int64_t at_a = batch * p.batch_a + (p.transpose_a ? l * p.row_a + i : i * p.row_a + l);
          const int64_t at_b = batch * p.batch_b + (p.transpose_b ? j * p.row_b + l : l * p.row_b + j);
          sum += static_cast<double>(widen(a[at_a])) * static_cast<double>(widen(b[at_b]));
        }
        const int64_t at = batch * p.batch_c + i * p.row_c + j;
        if (p.accumulate) sum += static_cast<double>(widen(addend[at]));
        if (p.bias) sum += static_cast<double>(widen(bias[j]));
        if (p.epilogue == Epilogue::kGelu)
          sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
        if (p.epilogue == Epilogue::kRelu) sum = std::max(sum, 0.0);
        expected[at] = narrow<Output>(sum);
      }
    }
  }
  const auto actual = device_c.get();
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(widen(actual[i])), static_cast<double>(widen(expected[i])), tolerance)
        << text(p) << " at " << i;
  }
}

/// Uses strides larger than dense ones as well as dense ones.
template <class Input, class Output>
void expect_products(double tolerance) {
  for (int variant = 0; variant < 32; ++variant) {
    MatmulProblem p{.m = 11,
                    .n = 13,
                    .k = 7,
                    .batch = 3,
                    .input = DTypeOf<Input>::value,
                    .output = DTypeOf<Output>::value};
    if (variant & 16) p.m = 1, p.k = 33;
    p.transpose_a = variant & 1;
    p.transpose_b = variant & 2;
    p.accumulate = variant & 4;
    const int64_t more = variant & 8 ? 2 : 0;
    p.row_a = (p.transpose_a ? p.m : p.k) + more;
    p.row_b = (p.transpose_b ? p.k : p.n) + more;
    p.row_c = p.n + more;
    p.batch_a = 50 * p.row_a;
    p.batch_b = variant & 8 ? 0 : 50 * p.row_b;
    p.batch_c = 20 * p.row_c;
    expect_product<Input, Output>(p, tolerance);
    if (p.accumulate) expect_product<Input, Output>(p, tolerance, true);
  }
}

TEST(EmulatedMatmul, MultipliesFloat32) { expect_products<float, float>(1e-5); }
TEST(EmulatedMatmul, MultipliesFloat64) { expect_products<double, double>(1e-14); }
TEST(EmulatedMatmul, MultipliesBFloat16) { expect_products<BFloat16, BFloat16>(0.04); }
TEST(EmulatedMatmul, MultipliesBFloat16ToFloat32) { expect_products<BFloat16, float>(1e-5); }

TEST(EmulatedMatmul, AddsBiasAndAppliesEpilogues) {
  for (Epilogue epilogue : {Epilogue::kNone, Epilogue::kGelu, Epilogue::kRelu}) {
    for (bool bias : {false, true}) {
      MatmulProblem p{.m = 9, .n = 12, .k = 20, .row_a = 20, .row_b = 12, .row_c = 12};
      p.bias = bias;
      p.epilogue = epilogue;
      expect_product<float, float>(p, 1e-5);
      p.accumulate = true;
      expect_product<float, float>(p, 1e-5, true);
    }
  }
}

TEST(EmulatedMatmul, TurnsNanIntoZeroByRelu) {
  const auto device = open_device(0);
  MatmulProblem p{.row_a = 1, .row_b = 1, .row_c = 1};
  p.epilogue = Epilogue::kRelu;
  const auto matmul = device->matmuls().prepare(p);
  const DeviceArray<float> x(*device, std::vector{NAN}), y(*device, std::vector{3.0F}), z(*device, 1);
  const DeviceArray<char> workspace(*device, matmul->workspace_bytes());
  matmul->run(x.data(), y.data(), z.data(), workspace.data());
  EXPECT_EQ(z.get()[0], 0);
}

TEST(EmulatedMatmul, MultipliesManyMatrices) {
  MatmulProblem p{.m = 2, .n = 3, .k = 1, .batch = kMostMatrices + 5, .row_a = 1, .row_b = 3, .row_c = 3};
  p.batch_a = 2, p.batch_b = 3, p.batch_c = 6;
  p.alignment_a = p.alignment_b = p.alignment_c = 4;
  expect_product<float, float>(p, 1e-5);
}

TEST(EmulatedMatmul, RoundsFactorsAsAsked) {
  const auto device = open_device(0);
  MatmulProblem p{.row_a = 1, .row_b = 1, .row_c = 1};
  for (const auto& [precision, bits] :
       {std::pair(MatmulPrecision::kTf32, 0x3f801fffu), {MatmulPrecision::kBFloat16, 0x3f807fffu}}) {
    p.precision = precision;
    const auto matmul = device->matmuls().prepare(p);
    const DeviceArray<float> x(*device, std::vector{std::bit_cast<float>(bits)}),
        y(*device, std::vector{3.0F}), z(*device, 1);
    const DeviceArray<char> workspace(*device, matmul->workspace_bytes());
    matmul->run(x.data(), y.data(), z.data(), workspace.data());
    EXPECT_EQ(z.get()[0], 3) << short_name(precision);
  }
}

TEST(EmulatedMatmul, MakesAPlanOnce) {
  const auto device = open_device(0);
  const MatmulProblem p{.m = 2, .row_a = 1, .row_b = 1, .row_c = 1};
  EXPECT_EQ(device->matmuls().prepare(p), device->matmuls().prepare(p));
}

TEST(EmulatedMatmulDeathTest, ChecksAlignment) {
  const auto device = open_device(0);
  const MatmulProblem p{.row_a = 1, .row_b = 1, .row_c = 1};
  const DeviceArray<float> x(*device, 8);
  const auto matmul = device->matmuls().prepare(p);
  EXPECT_DEATH(matmul->run(x.data(), x.data() + 1, x.data() + 4, nullptr), "is not a multiple of 16");
}

}  // namespace
}  // namespace mtf::cuda
