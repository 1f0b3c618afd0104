#include "engine/backend/cpu/contractions/thin_product.h"

#include <algorithm>
#include <type_traits>

#include "engine/backend/cpu/contractions/kernels_of_element.h"
#include "engine/backend/element.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// The most elements of A that are copied.
constexpr int64_t kMostCopied = 256 << 10;

template <class T>
bool is_thin(const Product<T>& product, const GemmKernels& kernels) {
  if (product.summed.size() != 1 || product.a_rows || product.c_rows) return false;
  const SummedAxis& axis = product.summed[0];
  if (axis.places || (product.b_column_stride != 1 && axis.b_stride != 1)) return false;
  return product.rows > 0 && product.rows <= kMostThinRows && product.rows * axis.size <= kMostCopied &&
         product.columns >= kernels.vector_width;
}

template <class T, class Kernels>
void multiply_rows(ThinProduct<T> product, int64_t rows, const Kernels& kernels) {
  for (; rows > 0; rows -= kMostThinRows) {
    const int64_t now = std::min<int64_t>(kMostThinRows, rows);
    thin_of<T>(kernels)[now - 1](product);
    product = product.rows_from(now);
  }
}

/// Copies A to [rows][depth].
template <class T>
void copy_a(const Product<T>& product, float* to) {
  const SummedAxis& axis = product.summed[0];
  for (int64_t i = 0; i < product.rows; ++i) {
    const T* row = product.a + i * product.a_row_stride;
    for (int64_t k = 0; k < axis.size; ++k) *to++ = widen(row[k * axis.a_stride]);
  }
}

/// The product of a copy of A by whole vectors of columns.
template <class T>
ThinProduct<T> thin_product_of(const Product<T>& product, const float* a, int64_t a_row_stride,
                               const GemmKernels& kernels) {
  const SummedAxis& axis = product.summed[0];
  return {.columns = product.columns / kernels.vector_width * kernels.vector_width,
          .depth = axis.size,
          .block = depth_block(axis.size),
          .a = a,
          .a_row_stride = a_row_stride,
          .b = product.b,
          .b_column_stride = product.b_column_stride,
          .b_depth_stride = axis.b_stride,
          .c = product.c,
          .c_row_stride = product.c_row_stride,
          .adds = product.adds};
}

/// Multiplies in bfloat16 if B is read in rows; others are packed as fast as they are read.
template <class T>
int64_t multiply_pairs(const Product<T>& product, float* scratch, const GemmKernels& kernels) {
  if (!kernels.pairs || product.b_column_stride != 1) return 0;
  const SummedAxis& axis = product.summed[0];
  const int64_t words = ceil_divide(axis.size, int64_t{2});
  const Strip<T> rows{.data = product.a,
                      .width = product.rows,
                      .stride = product.a_row_stride,
                      .depth = axis.size,
                      .depth_stride = axis.a_stride};
  pack_rows_of<T> (*kernels.pairs)(rows, scratch, words);
  const ThinProduct<T> thin = thin_product_of(product, scratch, words, kernels);
  multiply_rows(thin, product.rows, *kernels.pairs);
  return thin.columns;
}

/// Multiplies the columns of B strip by strip if it is stored in strips.
template <class T>
void multiply_strips(ThinProduct<T> thin, const Product<T>& product, const GemmKernels& kernels) {
  if (product.b_strip_stride == 0) return multiply_rows(thin, product.rows, kernels);
  const int64_t columns = thin.columns;
  thin.columns = kStripColumns;
  for (int64_t column = 0; column < columns; column += kStripColumns) {
    thin.b = product.b_at(column);
    multiply_rows(thin, product.rows, kernels);
    thin.c += kStripColumns;
  }
}

template <class T>
int64_t multiply_vectors(const Product<T>& product, float* scratch, const GemmKernels& kernels) {
  if (!is_thin(product, kernels)) return 0;
  if (product.in_bfloat16) return multiply_pairs(product, scratch, kernels);
  const SummedAxis& axis = product.summed[0];
  ThinProduct<T> thin = thin_product_of(product, scratch, axis.size, kernels);
  bool copies = true;
  if constexpr (std::is_same_v<T, float>) {
    if (axis.a_stride == 1) {
      thin.a = product.a;
      thin.a_row_stride = product.a_row_stride;
      copies = false;
    }
  }
  if (copies) copy_a(product, scratch);
  multiply_strips(thin, product, kernels);
  return thin.columns;
}

}  // namespace

void multiply(const ThinProduct<float>& product, int64_t rows, const GemmKernels& kernels) {
  multiply_rows(product, rows, kernels);
}
void multiply(const ThinProduct<BFloat16>& product, int64_t rows, const GemmKernels& kernels) {
  multiply_rows(product, rows, kernels);
}

int64_t multiply_few_rows(const Product<float>& product, float* scratch, const GemmKernels& kernels) {
  return multiply_vectors(product, scratch, kernels);
}
int64_t multiply_few_rows(const Product<BFloat16>& product, float* scratch, const GemmKernels& kernels) {
  return multiply_vectors(product, scratch, kernels);
}

int64_t thin_product_scratch(int64_t rows, int64_t depth) {
  return std::min(std::min<int64_t>(rows, kMostThinRows) * depth, kMostCopied);
}

}  // namespace mtf
