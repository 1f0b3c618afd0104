// Tensor core products and asynchronous copies, for kernels that multiply tiles in shared memory:
// the product of fragments by a warp, the loads of fragments, and copies from global memory that run
// concurrently with arithmetic.
//
//   uint32_t a[4], b[4];
//   load_matrices(block, tile, byte of row lane % 16, columns lane / 16 * 8, a);     // 16 x 16 of A
//   load_matrices(block, tile, ..., b);                                              // 16 rows of B^T
//   mma_16x8x16(block, upper, lower, a, b[0], b[1]);
//
// Fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16"), with g = lane / 4 and t = lane % 4. An element is
// a pair of bfloat16, the first in the lower half:
//
//   a[0] = A[g][2t, 2t+1]   a[1] = A[g + 8][2t, 2t+1]   a[2] = A[g][2t+8, 2t+9]   a[3] = A[g + 8][2t+8, 2t+9]
//   b[0] = B[2t, 2t+1][g]   b[1] = B[2t+8, 2t+9][g]
//   upper = C[g][2t, 2t+1]  lower = C[g + 8][2t, 2t+1]
//
// Two neighbouring tiles of C, rounded to bfloat16, therefore form a tile of A.
//
// mma_16x8x8() multiplies float32 rounded to tf32. Its fragments, of one element each, are
//
//   a[0] = A[g][t]   a[1] = A[g + 8][t]   a[2] = A[g][t + 4]   a[3] = A[g + 8][t + 4]
//   b[0] = B[t][g]   b[1] = B[t + 4][g]
//
// so load_matrices() loads them, too, with two elements of bfloat16 standing for one.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/backend/cuda/device/block.h"
#include "engine/core/dtype.h"

#if !defined(__CUDACC__)
#include <cmath>
#include <limits>
#include <vector>
#endif

namespace mtf::cuda {

/// Rounds two values to an element of a fragment.
MTF_DEVICE uint32_t pack_bfloat16(float first, float second) {
#if defined(__CUDACC__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return BFloat16(first).bits | static_cast<uint32_t>(BFloat16(second).bits) << 16;
#endif
}

/// Rounds x to tf32: 10 bits of mantissa, to nearest, ties away from zero.
MTF_DEVICE uint32_t round_to_tf32(float x) {
#if defined(__CUDACC__)
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
#else
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000u) & ~0x1fffu : bits;
#endif
}

/// 2^x with a relative error of 2^-22; subnormal results are 0.
MTF_DEVICE float approximate_exp2(float x) {
#if defined(__CUDACC__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  const float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0.0f : y;
#endif
}

/// Keeps the compiler from moving later loads to before this point, where registers are scarce.
MTF_DEVICE void load_later() { asm volatile("" : : : "memory"); }
/// Returns x, but keeps the compiler from computing what depends on it before a loop and holding it in
/// registers.
MTF_DEVICE int computed_here(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

#if defined(__CUDACC__)

MTF_DEVICE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Loads four 8 x 8 matrices from shared memory. Lane l gives the address of row l % 8 of matrix l / 8
/// (`byte` of `tile`; 16 bytes, aligned) and gets the elements 2t, 2t + 1 of row g of each matrix.
MTF_DEVICE void load_matrices(const Block&, const void* tile, int byte, uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(tile) + byte)
               : "memory");
}
/// Loads the transposed matrices: a lane gets element g of the rows 2t and 2t + 1.
MTF_DEVICE void load_transposed_matrices(const Block&, const void* tile, int byte, uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(tile) + byte)
               : "memory");
}

/// C [16 x 8] += A [16 x 16] B [16 x 8] in float32. `upper` and `lower` are two values each.
MTF_DEVICE void mma_16x8x16(const Block&, float* upper, float* lower, const uint32_t (&a)[4], uint32_t b0,
                            uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// C [16 x 8] += A [16 x 8] B [8 x 8] in float32, with factors in tf32.
MTF_DEVICE void mma_16x8x8(const Block&, float* upper, float* lower, const uint32_t (&a)[4], uint32_t b0,
                           uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(upper[0]), "+f"(upper[1]), "+f"(lower[0]), "+f"(lower[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// A thread's 16-byte copies from global to shared memory. Other threads see them after this thread's wait()
/// and a barrier.
class AsyncCopies {
 public:
  /// Copies to `byte` of `tile`. If `copied` is false, it writes zeros and does not read `from`.
  MTF_DEVICE void copy(void* tile, int byte, const void* from, bool copied) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(tile) + byte), "l"(__cvta_generic_to_global(from)), "r"(copied ? 16 : 0)
                 : "memory");
  }
  /// Waits for all copies.
  MTF_DEVICE void wait() { asm volatile("cp.async.wait_all;" : : : "memory"); }
};

#else

namespace emulator {

/// The row `lane % 8` of matrix `lane / 8`, for all lanes.
struct MatrixRows {
  Exchanged<const unsigned char*> rows;

  MatrixRows(const void* tile, int byte) : rows(static_cast<const unsigned char*>(tile) + byte) {}
  uint32_t element(int matrix, int row, int column) const {
    BFloat16 value;
    std::memcpy(&value, rows[8 * matrix + row] + column * 2, 2);
    return value.bits;
  }
};

inline float bfloat16_half(uint32_t pair, int half) {
  BFloat16 value;
  value.bits = static_cast<uint16_t>(pair >> (16 * half));
  return static_cast<float>(value);
}

}  // namespace emulator

inline void load_matrices(const Block& block, const void* tile, int byte, uint32_t (&matrices)[4]) {
  const emulator::MatrixRows from(tile, byte);
  const int row = block.lane() / 4, column = block.lane() % 4 * 2;
  for (int i = 0; i < 4; ++i)
    matrices[i] = from.element(i, row, column) | from.element(i, row, column + 1) << 16;
}
inline void load_transposed_matrices(const Block& block, const void* tile, int byte,
                                     uint32_t (&matrices)[4]) {
  const emulator::MatrixRows from(tile, byte);
  const int row = block.lane() % 4 * 2, column = block.lane() / 4;
  for (int i = 0; i < 4; ++i)
    matrices[i] = from.element(i, row, column) | from.element(i, row + 1, column) << 16;
}

namespace emulator {

/// The fragments of both factors, for all lanes.
struct Fragments {
  struct OfLane {
    uint32_t a[4], b[2];
  };
  Exchanged<OfLane> lanes;

  Fragments(const uint32_t (&a)[4], uint32_t b0, uint32_t b1) : lanes({{a[0], a[1], a[2], a[3]}, {b0, b1}}) {}
};

/// The value of a factor of tensor cores, which ignore the lower bits.
inline float tf32_value(uint32_t bits) { return std::bit_cast<float>(bits & ~0x1fffu); }

}  // namespace emulator

inline void mma_16x8x16(const Block& block, float* upper, float* lower, const uint32_t (&a)[4], uint32_t b0,
                        uint32_t b1) {
  const emulator::Fragments of(a, b0, b1);
  const int row = block.lane() / 4, column = block.lane() % 4 * 2;
  for (int t = 0; t < 4; ++t) {  // k = 2t, 2t + 1, 2t + 8, 2t + 9
    const uint32_t(&of_row)[4] = of.lanes[4 * row + t].a;
    for (int j = 0; j < 2; ++j) {
      const uint32_t(&of_column)[2] = of.lanes[4 * (column + j) + t].b;
      for (int k = 0; k < 4; ++k) {
        const float b = emulator::bfloat16_half(of_column[k / 2], k % 2);
        upper[j] += emulator::bfloat16_half(of_row[k / 2 * 2], k % 2) * b;
        lower[j] += emulator::bfloat16_half(of_row[k / 2 * 2 + 1], k % 2) * b;
      }
    }
  }
}

inline void mma_16x8x8(const Block& block, float* upper, float* lower, const uint32_t (&a)[4], uint32_t b0,
                       uint32_t b1) {
  const emulator::Fragments of(a, b0, b1);
  const int row = block.lane() / 4, column = block.lane() % 4 * 2;
  for (int t = 0; t < 4; ++t) {  // k = t, t + 4
    for (int j = 0; j < 2; ++j) {
      for (int k = 0; k < 2; ++k) {
        const float b = emulator::tf32_value(of.lanes[4 * (column + j) + t].b[k]);
        upper[j] += emulator::tf32_value(of.lanes[4 * row + t].a[k * 2]) * b;
        lower[j] += emulator::tf32_value(of.lanes[4 * row + t].a[k * 2 + 1]) * b;
      }
    }
  }
}

/// Overwrites the memory with garbage at once and copies only in wait(), so that a kernel that reads too
/// early, or copies to memory that is still being read, gives wrong results.
class AsyncCopies {
 public:
  void copy(void* tile, int byte, const void* from, bool copied) {
    void* to = static_cast<unsigned char*>(tile) + byte;
    std::memset(to, 0xff, 16);
    copies_.push_back({to, copied ? from : nullptr});
  }
  void wait() {
    for (const auto& [to, from] : copies_) {
      if (from != nullptr) {
        std::memcpy(to, from, 16);
      } else {
        std::memset(to, 0, 16);
      }
    }
    copies_.clear();
  }

 private:
  struct Copy {
    void* to;
    const void* from;
  };
  std::vector<Copy> copies_;
};

#endif

}  // namespace mtf::cuda
