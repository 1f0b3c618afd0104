// Products in bfloat16 have the bits that gemm.h promises, with and without instructions for them.
#include <gtest/gtest.h>
#include <pmmintrin.h>

#include <bit>
#include <cmath>
#include <limits>

#include "engine/backend/cpu/contractions/bfloat16_factor.h"
#include "engine/backend/cpu/contractions/gemm.h"
#include "tests/support/random_products.h"

namespace mtf::testing {
namespace {

constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

float factor(float x) { return std::bit_cast<float>(factor_bits(x)); }
float factor(BFloat16 x) { return factor(static_cast<float>(x)); }

/// x, or zero if x is denormal.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

/// The sum of a block of the depth in pairs, the odd depth first.
template <class T>
float sum_in_pairs(const Matrix<T>& a, const Matrix<T>& b, int64_t row, int64_t column, int64_t begin,
                   int64_t end) {
  float sum = 0;
  for (int64_t k = begin; k < end; k += 2) {
    const bool has_odd = k + 1 < end;
    const float odd_a = has_odd ? factor(*a.at(row, k + 1)) : 0,
                odd_b = has_odd ? factor(*b.at(k + 1, column)) : 0;
    sum = flushed(std::fma(odd_a, odd_b, sum));
    sum = flushed(std::fma(factor(*a.at(row, k)), factor(*b.at(k, column)), sum));
  }
  return sum;
}

/// The same in groups of 32 depths, of which even and odd ones have sums of their own.
template <class T>
float sum_in_groups(const Matrix<T>& a, const Matrix<T>& b, int64_t row, int64_t column, int64_t begin,
                    int64_t end) {
  float sum = 0;
  for (int64_t group = begin; group < end; group += 32) {
    float parts[2] = {};
    for (int64_t k = group; k < std::min(end, group + 32); ++k) {
      float& part = parts[(k - group) % 2];
      part = flushed(std::fma(factor(*a.at(row, k)), factor(*b.at(k, column)), part));
    }
    sum = flushed(sum + flushed(parts[0] + parts[1]));
  }
  return sum;
}

/// An entry of a * b, as gemm_kernels.h describes it.
template <class T>
float expected_entry(const Matrix<T>& a, const Matrix<T>& b, int64_t row, int64_t column, bool in_groups) {
  const int64_t depth = a.columns, block = depth_block(depth);
  float total = 0;
  for (int64_t begin = 0; begin < depth; begin += block) {
    const int64_t end = std::min(depth, begin + block);
    const float sum = in_groups ? sum_in_groups(a, b, row, column, begin, end)
                                : sum_in_pairs(a, b, row, column, begin, end);
    total = begin == 0 ? sum : flushed(total + sum);
  }
  return total;
}

/// The ways that multiply in bfloat16.
std::vector<ProductWay> ways_in_bfloat16() {
  std::vector<ProductWay> ways = product_ways();
  std::erase_if(ways, [](const ProductWay& way) { return !way.in_bfloat16; });
  return ways;
}

template <class T>
void expect_described_entries(int64_t rows, int64_t columns, int64_t depth) {
  const Matrix<T> a(rows, depth, random_size(0, 1)), b(depth, columns, random_size(0, 1));
  for (const ProductWay& way : ways_in_bfloat16()) {
    const std::vector<float> c = product_block(a, b, 0, rows, 0, columns, way);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j)
        ASSERT_EQ(c[i * columns + j], expected_entry(a, b, i, j, way.in_groups))
            << way.name << ", " << rows << "x" << columns << "x" << depth << " at " << i << ", " << j;
    }
  }
}

TEST(GemmInBFloat16, EntriesAreTheSumsThatTheHeaderDescribes) {
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t rows = random_size(1, 70), columns = random_size(1, 90);
    const int64_t depth = random_size(1, trial % 4 ? 70 : 900);
    expect_described_entries<float>(rows, columns, depth);
    expect_described_entries<BFloat16>(rows, columns, depth);
  }
  expect_described_entries<float>(300, 200, 700);
  expect_described_entries<float>(20, 1100, 385);
}

/// Sums of products of about 2^-126, which may be denormal, and with `special` of random bits: infinity, NaN, and products
/// beyond the range of float32.
Matrix<float> extreme_matrix(int64_t rows, int64_t columns, bool transposed, bool special) {
  Matrix<float> matrix(rows, columns, transposed);
  for (float& value : matrix.values) {
    const auto bits = static_cast<uint32_t>(generator());
    value = special ? std::bit_cast<float>(bits) : std::ldexp(value, -60 - static_cast<int>(bits % 8));
  }
  return matrix;
}

TEST(GemmInBFloat16, TheInstructionsAreEmulatedBitByBit) {
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t rows = random_size(1, 40), columns = random_size(1, 70), depth = random_size(1, 40);
    const bool special = trial % 2;
    const Matrix<float> a = extreme_matrix(rows, depth, random_size(0, 1), special),
                        b = extreme_matrix(depth, columns, random_size(0, 1), special);
    std::vector<float> expected;
    for (const ProductWay& way : ways_in_bfloat16()) {
      if (way.in_groups || way.kernels.vector_width == gemm_kernels(InstructionSet::kPortable).vector_width)
        continue;
      const std::vector<float> c = product_block(a, b, 0, rows, 0, columns, way);
      if (expected.empty()) expected = c;
      for (size_t i = 0; i < c.size(); ++i) {
        if (std::isnan(expected[i]) && std::isnan(c[i])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(c[i]), std::bit_cast<uint32_t>(expected[i]))
            << way.name << " " << trial << " at " << i;
      }
    }
  }
}

// Products of few rows are made without tiles: by AMX, with other instructions.
TEST(GemmInBFloat16, FewRowsOfExtremeNumbersHaveTheBitsOfMany) {
  for (const ProductWay& way : ways_in_bfloat16()) {
    for (int trial = 0; trial < 400; ++trial) {
      const int64_t rows = random_size(9, 40), columns = random_size(16, 70), depth = random_size(1, 80);
      const bool special = trial % 2;
      const Matrix<float> a = extreme_matrix(rows, depth, random_size(0, 1), special),
                          b = extreme_matrix(depth, columns, false, special);
      const std::vector<float> all = product_block(a, b, 0, rows, 0, columns, way);
      const int64_t few = random_size(1, 8), first = random_size(0, rows - few);
      const std::vector<float> block = product_block(a, b, first, few, 0, columns, way);
      for (size_t i = 0; i < block.size(); ++i) {
        const float expected = all[first * columns + i];
        if (std::isnan(expected) && std::isnan(block[i])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(block[i]), std::bit_cast<uint32_t>(expected))
            << way.name << " " << trial << " at " << i;
      }
    }
  }
}

TEST(GemmInBFloat16, FactorsAreRoundedToTheNearest) {
  for (const ProductWay& way : ways_in_bfloat16()) {
    for (const auto& [x, expected] : {std::pair(1 + 0x1p-8f, 1.0f),
                                      {1 + 0x3p-8f, 1 + 0x1p-6f},
                                      {1 + 0x3p-9f, 1 + 0x1p-7f},
                                      {0x1p-126f, 0x1p-126f},
                                      {0x1.fffffcp-127f, 0.0f},
                                      {0x1.fffffep127f, kInfiniteFloat},
                                      {-kInfiniteFloat, -kInfiniteFloat}}) {
      Matrix<float> a(3, 1, false), b(1, 40, false);
      std::ranges::fill(a.values, x);
      std::ranges::fill(b.values, 1.0f);
      for (const float y : product_block(a, b, 0, 3, 0, 40, way)) EXPECT_EQ(y, expected) << way.name << x;
    }
  }
}

TEST(GemmInBFloat16, NaNAndInfinityAreSeen) {
  for (const ProductWay& way : ways_in_bfloat16()) {
    Matrix<float> a(20, 33, false);
    const Matrix<float> b(33, 40, true);
    const_cast<float&>(*a.at(3, 32)) = NAN;
    const_cast<float&>(*a.at(5, 7)) = kInfiniteFloat;
    const std::vector<float> c = product_block(a, b, 0, 20, 0, 40, way);
    for (int64_t i = 0; i < 20; ++i) {
      for (int64_t j = 0; j < 40; ++j) {
        EXPECT_EQ(std::isnan(c[i * 40 + j]), i == 3) << way.name;
        EXPECT_EQ(std::isinf(c[i * 40 + j]), i == 5) << way.name;
      }
    }
  }
}

TEST(GemmInBFloat16, LeavesTheDenormalNumbersOfTheThreadAsTheyWere) {
  constexpr unsigned kAreZero = _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON;
  const unsigned before = _mm_getcsr();
  for (const unsigned are_zero : {0U, kAreZero}) {
    _mm_setcsr((before & ~kAreZero) | are_zero);
    for (const ProductWay& way : ways_in_bfloat16()) {
      const Matrix<float> a(2, 2, false), b(2, 2, false);
      product_block(a, b, 0, 2, 0, 2, way);
      EXPECT_EQ(_mm_getcsr() & kAreZero, are_zero) << way.name;
    }
  }
  _mm_setcsr(before);
}

}  // namespace
}  // namespace mtf::testing
