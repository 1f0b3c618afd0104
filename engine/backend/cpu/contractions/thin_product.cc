#include "engine/backend/cpu/contractions/thin_product.h"

#include <algorithm>
#include <type_traits>

#include "engine/backend/element.h"

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

template <class T>
void multiply_rows(ThinProduct<T> product, int64_t rows, const GemmKernels& kernels) {
  for (; rows > 0; rows -= kMostThinRows) {
    const int64_t now = std::min<int64_t>(kMostThinRows, rows);
    if constexpr (std::is_same_v<T, float>) {
      kernels.thin[now - 1](product);
    } else {
      kernels.thin_bf16[now - 1](product);
    }
    product.a += now * product.a_row_stride;
    product.c += now * product.c_row_stride;
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

template <class T>
int64_t multiply_vectors(const Product<T>& product, float* scratch, const GemmKernels& kernels) {
  if (!is_thin(product, kernels)) return 0;
  const SummedAxis& axis = product.summed[0];
  ThinProduct<T> thin{.columns = product.columns / kernels.vector_width * kernels.vector_width,
                      .depth = axis.size,
                      .block = depth_block(axis.size),
                      .a = scratch,
                      .a_row_stride = axis.size,
                      .b = product.b,
                      .b_column_stride = product.b_column_stride,
                      .b_depth_stride = axis.b_stride,
                      .c = product.c,
                      .c_row_stride = product.c_row_stride,
                      .adds = product.adds};
  bool copies = true;
  if constexpr (std::is_same_v<T, float>) {
    if (axis.a_stride == 1) {
      thin.a = product.a;
      thin.a_row_stride = product.a_row_stride;
      copies = false;
    }
  }
  if (copies) copy_a(product, scratch);
  multiply_rows(thin, product.rows, kernels);
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
