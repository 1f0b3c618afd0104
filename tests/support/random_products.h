// Matrices of random values, and their products by every kernel of the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/cpu/contractions/gemm.h"
#include "tests/support/amx_emulator.h"

namespace mtf::testing {

inline std::mt19937 generator(1);

inline int64_t random_size(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(generator);
}

template <class T>
std::vector<T> random_elements(int64_t n) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(T(uniform(generator)));
  return values;
}

/// A matrix whose memory ends with its values, so that a sanitizer detects a read beyond them.
template <class T>
struct Matrix {
  int64_t rows, columns, row_stride, column_stride, begin;
  std::vector<T> values;

  Matrix(int64_t rows, int64_t columns, bool transposed)
      : rows(rows), columns(columns), begin(random_size(0, 3)) {
    const int64_t distance = (transposed ? rows : columns) + (random_size(0, 1) ? 0 : random_size(1, 20));
    row_stride = transposed ? 1 : distance;
    column_stride = transposed ? distance : 1;
    values = random_elements<T>(begin + (rows - 1) * row_stride + (columns - 1) * column_stride + 1);
  }
  const T* at(int64_t i, int64_t j) const {
    return values.data() + begin + i * row_stride + j * column_stride;
  }
};

/// Kernels, and how they multiply.
struct ProductWay {
  std::string name;
  GemmKernels kernels;
  bool in_bfloat16 = false;
  bool in_groups = false;  ///< adds as AMX does
};

/// Every instruction set that the machine has, in full precision and in bfloat16: the latter also as on a machine without
/// instructions for it, and by AMX, which is emulated where it is missing.
inline std::vector<ProductWay> product_ways() {
  std::vector<ProductWay> ways;
  if (emulate_amx()) ways.push_back({"amx in bfloat16", *amx_gemm_kernels(), true, true});
  for (const InstructionSet set : available_instruction_sets()) {
    if (set == InstructionSet::kAmx) continue;  // in full precision it is AVX-512
    const std::string name(name_of(set));
    GemmKernels kernels = gemm_kernels(set);
    ways.push_back({name, kernels});
    ways.push_back({name + " in bfloat16", kernels, true});
    if (kernels.pairs == nullptr) continue;
    kernels.pairs = nullptr;
    ways.push_back({name + " in bfloat16 without its instructions", kernels, true});
  }
  return ways;
}

/// Returns rows [row, row + rows) and columns [column, column + columns) of a * b.
template <class T>
std::vector<float> product_block(const Matrix<T>& a, const Matrix<T>& b, int64_t row, int64_t rows,
                                 int64_t column, int64_t columns, const ProductWay& way) {
  const SummedAxis summed{a.columns, a.column_stride, b.row_stride};
  std::vector<float> c(rows * columns, NAN), scratch(product_scratch(rows, columns, a.columns), NAN);
  multiply(Product<T>{.rows = rows,
                      .columns = columns,
                      .summed = {&summed, 1},
                      .a = a.at(row, 0),
                      .a_row_stride = a.row_stride,
                      .b = b.at(0, column),
                      .b_column_stride = b.column_stride,
                      .c = c.data(),
                      .c_row_stride = columns,
                      .in_bfloat16 = way.in_bfloat16},
           scratch.data(), way.kernels);
  return c;
}

}  // namespace mtf::testing
