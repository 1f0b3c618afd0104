// Matrix multiplication on dense matrices, one thread, for the einsum kernel.
//
//   C [rows x columns] = A [rows x depth] * B [depth x columns]  (+ C)
//
// float32 goes to oneDNN's sgemm except for shapes where its start-up costs more than the work; float64 and
// vectors take plain vectorised loops. Which path a shape takes is a pure function of the shape.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtf {

/// Element (i, j) stands at data[i * row_stride + j * column_stride]; one of the strides is 1, or the extent
/// along it.
template <class T>
struct MatrixView {
  T* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

struct GemmShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};

/// C = A * B, or C += A * B when `accumulate`.
void gemm(const GemmShape& shape, MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c,
          bool accumulate);
void gemm(const GemmShape& shape, MatrixView<const double> a, MatrixView<const double> b,
          MatrixView<double> c, bool accumulate);

/// Makes the calling thread compute as every other thread does: oneDNN starts no threads of its own (one
/// OpenMP thread), and the floating-point control word is the default one (round to nearest; denormal numbers
/// are kept). Every thread that runs kernels calls it once.
void use_one_library_thread();

}  // namespace mtf
