// Products of matrices on a device: cuBLASLt, or loops of the emulator.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/core/dtype.h"

namespace mtf::cuda {

/// What becomes of a sum before it is rounded and stored. Not relu: cuBLASLt's makes 0 of NaN, which must be
/// seen.
enum class Epilogue : uint8_t { kNone, kGelu };

/// c[i] = epilogue(a[i] b[i] (+ c[i]) (+ bias)) for `batch` matrices, row-major: a is m x k (k x m if
/// transposed), b is k x n (n x k), c is m x n. Sums in float32 (float64 for float64). No size is 0.
struct MatmulProblem {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool transpose_a = false, transpose_b = false;
  int64_t row_a = 0, row_b = 0, row_c = 0;        ///< elements from row to row as stored
  int64_t batch_a = 0, batch_b = 0, batch_c = 0;  ///< elements from matrix to matrix
  DType input = DType::kFloat32;                  ///< of a and b
  DType output = DType::kFloat32;                 ///< of c: that of a and b, or float32
  bool accumulate = false;                        ///< adds to c
  bool tf32 = false;                              ///< products of float32 with 10 bits of mantissa
  bool bias = false;                              ///< adds bias[j], of c's type, to column j; not in float64
  Epilogue epilogue = Epilogue::kNone;            ///< not in float64; gelu with tanh
  int64_t alignment = 16;  ///< bytes at multiples of which a, b, c and bias begin: a power of two

  friend auto operator<=>(const MatmulProblem&, const MatmulProblem&) = default;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual int64_t workspace_bytes() const = 0;
  /// Enqueues on the compute stream. `bias`: n elements, where the problem has one.
  virtual void run(const void* a, const void* b, void* c, void* workspace,
                   const void* bias = nullptr) const = 0;
};

class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  /// Of what the bits of results depend on beside the device: "cublaslt 13.1.0".
  virtual std::string version() const = 0;
  /// The same plan for the same problem: it is made once.
  virtual std::shared_ptr<const Matmul> prepare(const MatmulProblem& problem) = 0;
};

}  // namespace mtf::cuda
