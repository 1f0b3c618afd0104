#include "engine/backend/cpu/gemm.h"

#include <dlfcn.h>
#include <dnnl.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>

#include "engine/backend/cpu/clones.h"
#include "engine/core/check.h"

namespace mtf {
namespace {

/// Below this many multiply-adds sgemm's fixed cost (about 1 us) exceeds the work.
constexpr int64_t kSmallProduct = 4096;

/// out[j] (+)= sum over k of a[k] * b[k][j], rows of b contiguous: four of them are added in each pass over
/// `out`.
template <class T>
MTF_INLINE void add_scaled_rows(const GemmShape& shape, const T* a, int64_t a_stride, const T* b,
                                int64_t b_stride, T* out, bool accumulate) {
  if (!accumulate) std::fill(out, out + shape.columns, T(0));
  int64_t k = 0;
  for (; k + 4 <= shape.depth; k += 4) {
    const T a0 = a[k * a_stride], a1 = a[(k + 1) * a_stride], a2 = a[(k + 2) * a_stride],
            a3 = a[(k + 3) * a_stride];
    const T *b0 = b + k * b_stride, *b1 = b0 + b_stride, *b2 = b1 + b_stride, *b3 = b2 + b_stride;
    for (int64_t j = 0; j < shape.columns; ++j) out[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
  }
  for (; k < shape.depth; ++k) {
    const T scale = a[k * a_stride];
    for (int64_t j = 0; j < shape.columns; ++j) out[j] += scale * b[k * b_stride + j];
  }
}

template <class T>
MTF_INLINE T dot(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t n) {
  T sum = 0;
  if (a_stride == 1 && b_stride == 1) {
    for (int64_t k = 0; k < n; ++k) sum += a[k] * b[k];
  } else {
    for (int64_t k = 0; k < n; ++k) sum += a[k * a_stride] * b[k * b_stride];
  }
  return sum;
}

template <class T>
MTF_CLONES void multiply_by_loops(const GemmShape& shape, MatrixView<const T> a, MatrixView<const T> b,
                                  MatrixView<T> c, bool accumulate) {
  for (int64_t i = 0; i < shape.rows; ++i) {
    const T* row = a.data + i * a.row_stride;
    T* out = c.data + i * c.row_stride;
    if (b.column_stride == 1 && shape.columns > 1) {
      add_scaled_rows(shape, row, a.column_stride, b.data, b.row_stride, out, accumulate);
      continue;
    }
    for (int64_t j = 0; j < shape.columns; ++j) {
      const T sum = dot(row, a.column_stride, b.data + j * b.column_stride, b.row_stride, shape.depth);
      out[j] = accumulate ? out[j] + sum : sum;
    }
  }
}

/// How oneDNN is told about a matrix of the given extents: row-major ('N') or transposed ('T'), and the
/// distance of its rows.
struct Operand {
  char transposed;
  int64_t distance;
};
Operand operand(int64_t rows, int64_t columns, MatrixView<const float> m) {
  if (m.column_stride == 1 || columns == 1)
    return {'N', std::max(rows == 1 ? columns : m.row_stride, columns)};
  MTF_CHECK(m.row_stride == 1 || rows == 1, "a matrix with strides {} and {}", m.row_stride, m.column_stride);
  return {'T', std::max(m.column_stride, rows)};
}

}  // namespace

void gemm(const GemmShape& shape, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c,
          bool accumulate) {
  if (shape.rows == 1 || shape.columns == 1 || shape.rows * shape.columns * shape.depth < kSmallProduct) {
    multiply_by_loops(shape, a, b, c, accumulate);
    return;
  }
  const Operand left = operand(shape.rows, shape.depth, a), right = operand(shape.depth, shape.columns, b);
  const dnnl_status_t status =
      dnnl_sgemm(left.transposed, right.transposed, shape.rows, shape.columns, shape.depth, 1.0f, a.data,
                 left.distance, b.data, right.distance, accumulate ? 1.0f : 0.0f, c.data, c.row_stride);
  MTF_CHECK(status == dnnl_success, "sgemm {}x{}x{} returned {}", shape.rows, shape.columns, shape.depth,
            static_cast<int>(status));
}

void gemm(const GemmShape& shape, MatrixView<const double> a, MatrixView<const double> b,
          MatrixView<double> c, bool accumulate) {
  multiply_by_loops(shape, a, b, c, accumulate);
}

void use_one_library_thread() {
  // The OpenMP runtime comes with oneDNN and is looked up, so that the program itself need not be linked with
  // it.
  using SetThreads = void (*)(int);
  if (const auto set_threads = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set_threads(1);
#if defined(__SSE__)
  _mm_setcsr(0x1f80);  // exceptions masked, round to nearest, no flush to zero
#endif
}

}  // namespace mtf
