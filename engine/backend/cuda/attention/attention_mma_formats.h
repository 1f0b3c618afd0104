// The formats of tile products on tensor cores (attention_mma_tiles.h): bfloat16, and float32 rounded to tf32
// (10 bits of mantissa, to nearest). Sums are float32. One product has 32 bytes of each row, so that ldmatrix
// loads the same bytes for both: two chunks of 16 bytes of 8 or 16 rows.
//
// A format has
//   T                 the element type in memory
//   kDepth            the number of summed elements of a product: 32 bytes
//   round(elements)   rounds loaded elements of fragments
//   weights(upper, lower, rows)          makes the fragment of a thread's scores of kDepth columns
//   Columns(block), load(data, k, n, to) loads the fragments of columns 16 n ... 16 n + 15 of kDepth rows from k on
//   multiply(...)                        see mma_16x8x16()
#pragma once

#include <bit>
#include <cstdint>

#include "engine/backend/cuda/attention/tile_mma.h"
#include "engine/core/dtype.h"

namespace mtf::cuda {

struct BFloat16Mma {
  using T = BFloat16;
  static constexpr int kDepth = 16;

  MTF_DEVICE static void round(uint32_t (&)[4]) {}
  MTF_DEVICE static void weights(const float* upper, const float* lower, uint32_t (&rows)[4]) {
    MTF_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      rows[i * 2] = pack_bfloat16(upper[i * 2], upper[i * 2 + 1]);
      rows[i * 2 + 1] = pack_bfloat16(lower[i * 2], lower[i * 2 + 1]);
    }
  }
  template <int kRowBytes>
  class Columns {
   public:
    MTF_DEVICE explicit Columns(const Block& block)
        : block_(block),
          row_(block.lane() % 16 * kRowBytes),
          chunk_(computed_here((block.lane() / 16 ^ block.lane() % 8) * 16)) {}
    MTF_DEVICE void load(const unsigned char* data, int k, int n, uint32_t (&columns)[4]) const {
      load_transposed_matrices(block_, data, row_ + k * kRowBytes + (chunk_ ^ n * 32), columns);
    }

   private:
    const Block& block_;
    int row_, chunk_;
  };
  MTF_DEVICE static void multiply(const Block& block, float* upper, float* lower, const uint32_t (&a)[4],
                                  uint32_t b0, uint32_t b1) {
    mma_16x8x16(block, upper, lower, a, b0, b1);
  }
};

/// A product sums over its elements in any order: weights in columns 2t and 2t + 1 of a thread are taken as those
/// in columns t and t + 4 of the fragment, with the rows 2t and 2t + 1 of the other factor.
struct Tf32Mma {
  using T = float;
  static constexpr int kDepth = 8;

  MTF_DEVICE static void round(uint32_t (&elements)[4]) {
    MTF_UNROLL(4)
    for (uint32_t& element : elements) element = round_to_tf32(std::bit_cast<float>(element));
  }
  MTF_DEVICE static void weights(const float* upper, const float* lower, uint32_t (&rows)[4]) {
    MTF_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      rows[i * 2] = round_to_tf32(upper[i]);
      rows[i * 2 + 1] = round_to_tf32(lower[i]);
    }
  }
  template <int kRowBytes>
  class Columns {
   public:
    MTF_DEVICE explicit Columns(const Block& block) {
      MTF_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        const int row = block.lane() % 4 * 2 + i, column = block.lane() / 4;
        places_[i] = computed_here(row * kRowBytes + ((column / 4 ^ row) * 16 + column % 4 * 4));
      }
    }
    MTF_DEVICE void load(const unsigned char* data, int k, int n, uint32_t (&columns)[4]) const {
      MTF_UNROLL(4)
      for (int i = 0; i < 4; ++i)
        columns[i] = *reinterpret_cast<const uint32_t*>(data + k * kRowBytes +
                                                        (places_[i % 2] ^ (n * 2 + i / 2) * 32));
      round(columns);
    }

   private:
    int places_[2];
  };
  MTF_DEVICE static void multiply(const Block& block, float* upper, float* lower, const uint32_t (&a)[4],
                                  uint32_t b0, uint32_t b1) {
    mma_16x8x8(block, upper, lower, a, b0, b1);
  }
};

}  // namespace mtf::cuda
