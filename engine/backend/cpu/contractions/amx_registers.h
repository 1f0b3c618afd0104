// The registers of AMX for tiles of up to 32 rows by two vectors of 16 columns of 4 bytes each, and the instructions on them. They
// are written as assembly with all that they read and write; the compiler's own intrinsics do not say that they use memory.
// Only for machines with AMX (InstructionSet::kAmx).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/base/dispatch.h"
#include "engine/base/instruction_set.h"

namespace mtf::amx {

/// A register has up to so many rows of so many words of 4 bytes.
inline constexpr int kRows = 16, kWords = 16;
inline constexpr int kMostTileRows = 2 * kRows;
inline constexpr int64_t kWordBytes = 4, kRowBytes = kWords * kWordBytes;

/// Registers: sums of the upper and the lower rows by both vectors of columns, the upper and lower rows of A, and the vectors of
/// columns of B.
inline constexpr int kSums = 0, kA = 4, kB = 6;

/// Gives this thread's registers the shapes for tiles of so many rows.
void set_shapes(int rows);
/// Gives up the contents of the registers, which the system then need not save.
void release_registers();

#if MTF_HAS_INSTRUCTION_SETS

// As in gemm_tiles.h, the unnamed namespace keeps code compiled for one instruction set apart from the others.
namespace {

template <int kTo>
MTF_INLINE void load_register(const void* from, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(kTo) : "memory");
}
template <int kFrom>
MTF_INLINE void store_register(void* to, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(kFrom) : "memory");
}
template <int kTo>
MTF_INLINE void clear_register() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTo));
}

/// What a word of A times a word of B is: two products of bfloat16, or four of a signed and an unsigned byte.
struct BFloat16Pairs {
  template <int kTo, int kFirst, int kSecond>
  MTF_INLINE void add_products() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kTo), "i"(kFirst), "i"(kSecond));
  }
};
struct FourBytes {
  template <int kTo, int kFirst, int kSecond>
  MTF_INLINE void add_products() {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kTo), "i"(kFirst), "i"(kSecond));
  }
};

/// A place in memory, and the bytes from one row to the next.
struct Rows {
  const void* data;
  int64_t bytes;

  const void* row(int64_t i) const { return static_cast<const std::byte*>(data) + i * bytes; }
};

/// A tile of sums in registers: with `kLower` of more than kRows rows, and of kVectors vectors of columns.
template <class Word, bool kLower, int kVectors>
struct RegisterTile {
  MTF_INLINE void clear() {
    clear_register<kSums>();
    if constexpr (kVectors == 2) clear_register<kSums + 1>();
    if constexpr (kLower) clear_register<kSums + 2>();
    if constexpr (kLower && kVectors == 2) clear_register<kSums + 3>();
  }

  /// Adds the products of kWords words of the rows of A, and of as many rows of each vector of columns of B.
  MTF_INLINE void add_products(const Rows& a, const Rows& b, const Rows& second_b) {
    load_register<kA>(a.data, a.bytes);
    load_register<kB>(b.data, b.bytes);
    Word::template add_products<kSums, kA, kB>();
    if constexpr (kVectors == 2) {
      load_register<kB + 1>(second_b.data, second_b.bytes);
      Word::template add_products<kSums + 1, kA, kB + 1>();
    }
    if constexpr (kLower) {
      load_register<kA + 1>(a.row(kRows), a.bytes);
      Word::template add_products<kSums + 2, kA + 1, kB>();
      if constexpr (kVectors == 2) Word::template add_products<kSums + 3, kA + 1, kB + 1>();
    }
  }

  /// The same for `words` words, fewer than kWords, with zeros behind them. The tile has `rows` rows.
  static void add_rest(const Rows& a, const Rows& b, const Rows& second_b, int64_t words, int rows) {
    alignas(64) std::byte all_a[kMostTileRows * kRowBytes] = {}, all_b[kVectors][kRows * kRowBytes] = {};
    for (int r = 0; r < rows; ++r) std::memcpy(all_a + r * kRowBytes, a.row(r), words * kWordBytes);
    for (int64_t k = 0; k < words; ++k) {
      std::memcpy(all_b[0] + k * kRowBytes, b.row(k), kRowBytes);
      if constexpr (kVectors == 2) std::memcpy(all_b[1] + k * kRowBytes, second_b.row(k), kRowBytes);
    }
    add_products({all_a, kRowBytes}, {all_b[0], kRowBytes}, {all_b[kVectors - 1], kRowBytes});
  }

  /// Stores the sums, whose rows are so many bytes apart.
  MTF_INLINE void store(void* to, int64_t row_bytes) {
    auto* const upper = static_cast<std::byte*>(to);
    std::byte* const lower = upper + kRows * row_bytes;
    store_register<kSums>(upper, row_bytes);
    if constexpr (kVectors == 2) store_register<kSums + 1>(upper + kRowBytes, row_bytes);
    if constexpr (kLower) store_register<kSums + 2>(lower, row_bytes);
    if constexpr (kLower && kVectors == 2) store_register<kSums + 3>(lower + kRowBytes, row_bytes);
  }
};

}  // namespace

#endif

}  // namespace mtf::amx
