// The matrix product of float64, in plain vectorised loops.
#include <algorithm>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// out[j] (+)= sum over k of a[k] * b[k][j] for contiguous rows of b. Each pass over `out` adds four terms.
MTF_INLINE void add_scaled_rows(const SummedAxis& axis, int64_t columns, const double* a, const double* b,
                                double* out, bool accumulate) {
  if (!accumulate) std::fill(out, out + columns, 0.0);
  int64_t k = 0;
  for (; k + 4 <= axis.size; k += 4) {
    const double a0 = a[axis.place(k) * axis.a_stride], a1 = a[axis.place(k + 1) * axis.a_stride],
                 a2 = a[axis.place(k + 2) * axis.a_stride], a3 = a[axis.place(k + 3) * axis.a_stride];
    const double *b0 = b + axis.place(k) * axis.b_stride, *b1 = b + axis.place(k + 1) * axis.b_stride,
                 *b2 = b + axis.place(k + 2) * axis.b_stride, *b3 = b + axis.place(k + 3) * axis.b_stride;
    for (int64_t j = 0; j < columns; ++j) out[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
  }
  for (; k < axis.size; ++k) {
    const double scale = a[axis.place(k) * axis.a_stride];
    for (int64_t j = 0; j < columns; ++j) out[j] += scale * b[axis.place(k) * axis.b_stride + j];
  }
}

MTF_INLINE double dot(const SummedAxis& axis, const double* a, const double* b) {
  double sum = 0;
  if (axis.a_stride == 1 && axis.b_stride == 1 && !axis.places) {
    for (int64_t k = 0; k < axis.size; ++k) sum += a[k] * b[k];
  } else {
    for (int64_t k = 0; k < axis.size; ++k)
      sum += a[axis.place(k) * axis.a_stride] * b[axis.place(k) * axis.b_stride];
  }
  return sum;
}

/// Computes the part of the product at one index of the outer summed axes.
MTF_INLINE void multiply_by_loops(const Product<double>& product, const SummedAxis& axis, const double* a,
                                  const double* b, bool accumulate) {
  for (int64_t i = 0; i < product.rows; ++i) {
    const double* row = a + (product.a_rows ? product.a_rows[i] : i * product.a_row_stride);
    double* out = product.c + (product.c_rows ? product.c_rows[i] : i * product.c_row_stride);
    if (product.b_column_stride == 1 && product.columns > 1) {
      add_scaled_rows(axis, product.columns, row, b, out, accumulate);
      continue;
    }
    for (int64_t j = 0; j < product.columns; ++j) {
      const double sum = dot(axis, row, b + j * product.b_column_stride);
      out[j] = accumulate ? out[j] + sum : sum;
    }
  }
}

MTF_INLINE void add_products_by_loops(const Products<double>& products, double* sums) {
  for (int64_t k = 0; k < products.depth; ++k) {
    const double *a = products.a + k * products.a_stride, *b = products.b + k * products.b_stride;
    for (int64_t j = 0; j < products.size; ++j) sums[j] += a[j] * b[j];
  }
}

}  // namespace

void add_products(const Products<double>& products, double* sums) {
  dispatched<add_products_by_loops>(products, sums);
}

void multiply(const Product<double>& product, double*) {
  const SummedAxis inner = product.summed.empty() ? SummedAxis{} : product.summed.back();
  const int64_t outer = depth_of(product.summed) / std::max<int64_t>(1, inner.size);
  for (int64_t entry = 0; entry < outer; ++entry) {
    const double *a = product.a, *b = product.b;
    int64_t rest = entry;
    for (size_t i = product.summed.size() - (product.summed.empty() ? 0 : 1); i-- > 0;
         rest /= product.summed[i].size) {
      a += rest % product.summed[i].size * product.summed[i].a_stride;
      b += rest % product.summed[i].size * product.summed[i].b_stride;
    }
    dispatched<multiply_by_loops>(product, inner, a, b, entry > 0 || product.adds);
  }
}

}  // namespace mtf
