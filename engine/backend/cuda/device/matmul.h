// Matrix products on a device: cuBLASLt, or loops of the emulator.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/backend/tuning_record.h"
#include "engine/core/dtype.h"
#include "engine/core/matmul_precision.h"

namespace mtf::cuda {

/// A function applied to a sum before it is rounded and stored. kRelu turns NaN into 0, as cuBLASLt does.
enum class Epilogue : uint8_t { kNone, kGelu, kRelu };

/// Tensors begin at multiples of this number of bytes.
inline constexpr int64_t kBiasAlignment = 64;

/// c[i] = epilogue(a[i] b[i] (+ addend[i]) (+ bias)) for `batch` row-major matrices: a is m x k (k x m if
/// transposed), b is k x n (n x k), c is m x n. Sums are in float32 (float64 for float64); a sum of products may be
/// rounded to bfloat16, the type of c, before the addend is added. No size is 0.
struct MatmulProblem {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  bool transpose_a = false, transpose_b = false;
  int64_t row_a = 0, row_b = 0, row_c = 0;        ///< elements between the begins of adjacent rows, as stored
  int64_t batch_a = 0, batch_b = 0, batch_c = 0;  ///< elements between adjacent matrices
  DType input = DType::kFloat32;                  ///< type of a and b
  DType output = DType::kFloat32;                 ///< type of c: that of a and b, or float32
  bool accumulate = false;                        ///< adds the addend, which is stored as c is
  MatmulPrecision precision = MatmulPrecision::kFull;  ///< for factors of float32
  bool bias = false;                    ///< adds bias[j], of c's type, to column j; not in float64
  Epilogue epilogue = Epilogue::kNone;  ///< not in float64; gelu with tanh
  /// The numbers of bytes at multiples of which the operands begin: powers of two, no less than an element.
  /// The addend begins where c could begin, a bias at a multiple of kBiasAlignment.
  int64_t alignment_a = 16, alignment_b = 16, alignment_c = 16;

  friend auto operator<=>(const MatmulProblem&, const MatmulProblem&) = default;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual int64_t workspace_bytes() const = 0;
  /// Enqueues the product on the compute stream. `bias` has n elements if the problem has a bias. An
  /// accumulating product without `addend` adds to what c holds; c may also be the addend.
  virtual void run(const void* a, const void* b, void* c, void* workspace, const void* bias = nullptr,
                   const void* addend = nullptr) const = 0;
};

class MatmulLibrary {
 public:
  virtual ~MatmulLibrary() = default;
  /// What the bits of results depend on besides the device, such as "cublaslt 13.1.0".
  virtual std::string version() const = 0;
  /// From now on chooses among algorithms by measuring them, instead of taking the first that the library
  /// names. `record` must outlive the library or the next call.
  virtual void tune(TuningRecord& record) = 0;
  /// Prepares a plan; equal problems share one. Null if the library has no algorithm for the problem.
  virtual std::shared_ptr<const Matmul> prepare(const MatmulProblem& problem) = 0;
};

}  // namespace mtf::cuda
