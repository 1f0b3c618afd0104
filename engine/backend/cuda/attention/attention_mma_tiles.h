// Tile products of bfloat16 on tensor cores (see attention_fma_tiles.h for the interface), for rows of up to
// kWidth elements that begin at multiples of 16 bytes. Each of four warps has 16 or 32 rows; scores pass from
// one product to the next in registers, rounded to bfloat16.
//
// Operands are stored in shared memory as rows of kWidth elements. The 16-byte chunk c of row r is stored at
// index c ^ r % 8, so that the eight rows of a matrix are in different banks.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_fma_tiles.h"

namespace mtf::cuda {

/// `kWarpTiles` is the number of 16-row tiles of a warp.
template <int kWidth, int kWarpTiles>
class MmaTiles {
 public:
  using T = BFloat16;
  using C = float;
  static constexpr int kThreads = 128, kRows = 64 * kWarpTiles, kColumns = 64;
  static constexpr int kThreadRows = 2 * kWarpTiles, kThreadColumns = kColumns / 4;
  static constexpr int kRowLanes = 4, kGroup = 2;
  static constexpr bool kAllTerms = false;
  static constexpr int kOutputColumns = kWidth, kThreadOutputs = kWidth / 4;
  using Scores = float[kThreadRows][kThreadColumns];
  using Output = float[kThreadRows][kThreadOutputs];
  struct RowOperand {
    unsigned char* data;
  };
  struct ColumnOperand {
    unsigned char* data;
  };

  MTF_HOST_DEVICE static int64_t shared_bytes(int row_operands, int column_operands) {
    return int64_t{kRowBytes} * (row_operands * kRows + column_operands * kColumns);
  }

  MTF_DEVICE MmaTiles(const Block& block, const AttentionView&, unsigned char* shared)
      : block_(block), shared_(shared) {}

  MTF_DEVICE int row(int i) const { return first_row() + i / 2 * 16 + i % 2 * 8 + block_.lane() / 4; }
  MTF_HOST_DEVICE static constexpr int column_step(int j) { return j / 2 * 8 + j % 2; }
  MTF_DEVICE int column(int j) const { return block_.lane() % 4 * 2 + column_step(j); }
  MTF_DEVICE int output_column(int j) const { return column(j); }

  MTF_DEVICE RowOperand row_operand(int i) const { return {shared_ + i * kRows * kRowBytes}; }
  MTF_DEVICE ColumnOperand column_operand(int row_operands, int i) const {
    return {shared_ + (row_operands * kRows + i * kColumns) * kRowBytes};
  }
  MTF_DEVICE void begin(RowOperand& operand, const TileRows<T>& rows) { copy<kRows>(operand.data, rows); }
  MTF_DEVICE void begin(ColumnOperand& operand, const TileRows<T>& rows) {
    copy<kColumns>(operand.data, rows);
  }
  MTF_DEVICE void ready() {
    copies_.wait();
    block_.sync();
  }

  MTF_DEVICE void add_transposed_product(Scores& scores, const RowOperand& a, const ColumnOperand& b) {
    const int lane = block_.lane();
    const int row_of_a = (first_row() + lane % 16) * kRowBytes, chunk_of_a = chunk(lane / 16);
    const int row_of_b = (lane / 16 * 8 + lane % 8) * kRowBytes, chunk_of_b = chunk(lane / 8 % 2);
    MTF_UNROLL(kWidth / 16)
    for (int k = 0; k < kWidth / 16; ++k) {
      uint32_t rows[kWarpTiles][4];
      MTF_UNROLL(kWarpTiles)
      for (int tile = 0; tile < kWarpTiles; ++tile)
        load_matrices(block_, a.data, row_of_a + tile * 16 * kRowBytes + (chunk_of_a ^ k * 32), rows[tile]);
      MTF_UNROLL(kColumns / 16)
      for (int n = 0; n < kColumns / 16; ++n) {
        uint32_t columns[4];
        load_matrices(block_, b.data, row_of_b + n * 16 * kRowBytes + (chunk_of_b ^ k * 32), columns);
        multiply(scores, rows, n, columns);
      }
    }
  }

  MTF_DEVICE void add_product(Output& output, const Scores& scores, const ColumnOperand& b, int) {
    const int lane = block_.lane();
    const int row_of_b = lane % 16 * kRowBytes, chunk_of_b = chunk(lane / 16);
    MTF_UNROLL(kColumns / 16)
    for (int k = 0; k < kColumns / 16; ++k) {
      uint32_t rows[kWarpTiles][4];
      MTF_UNROLL(kWarpTiles)
      for (int tile = 0; tile < kWarpTiles; ++tile) {
        MTF_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const float* pair = &scores[tile * 2 + i % 2][k * 4 + i / 2 * 2];
          rows[tile][i] = pack_bfloat16(pair[0], pair[1]);
        }
      }
      MTF_UNROLL(kWidth / 16)
      for (int n = 0; n < kWidth / 16; ++n) {
        uint32_t columns[4];
        load_transposed_matrices(block_, b.data, row_of_b + k * 16 * kRowBytes + (chunk_of_b ^ n * 32),
                                 columns);
        multiply(output, rows, n, columns);
      }
    }
  }

  MTF_DEVICE static float weight(float logit, float top) {
    return approximate_exp2(logit * kLog2E - top * kLog2E);
  }

 private:
  static constexpr int kRowBytes = kWidth * 2, kChunks = kWidth / 8;

  MTF_DEVICE int first_row() const { return block_.warp() * kWarpTiles * 16; }

  /// The byte offset of chunk c (0 or 1) in a row whose index is lane % 8 plus a multiple of 8. The offset of
  /// chunk 2k + c differs from it by an exclusive or with 32 k.
  MTF_DEVICE int chunk(int c) const { return computed_here((c ^ block_.lane() % 8) * 16); }

  template <int kCount>
  MTF_DEVICE void copy(unsigned char* to, const TileRows<T>& rows) {
    constexpr int kRowsAtOnce = kThreads / kChunks, kTimes = kCount / kRowsAtOnce;
    constexpr int kStep = kRowsAtOnce * kRowBytes;
    const int c = block_.thread() % kChunks, first = block_.thread() / kChunks;
    const int place = first * kRowBytes + (c ^ first % 8) * 16;
    const bool exists = c * 8 < rows.columns;
    if (rows.fold > 1) {
      MTF_UNROLL(1)
      for (int i = 0; i < kTimes; ++i) {
        const int row = first + i * kRowsAtOnce;
        copies_.copy(to, place + i * kStep, rows.at(row) + c * 8, exists && rows.has(row));
      }
    } else {
      const T* from = rows.at(first) + c * 8;
      MTF_UNROLL(kTimes)
      for (int i = 0; i < kTimes; ++i) {
        copies_.copy(to, place + i * kStep, from, exists && rows.has(first + i * kRowsAtOnce));
        from += rows.stride * kRowsAtOnce;
      }
    }
  }

  /// sums += rows x columns, for columns 16 n ... 16 n + 15.
  template <int kSums>
  MTF_DEVICE void multiply(float (&sums)[kThreadRows][kSums], const uint32_t (&rows)[kWarpTiles][4], int n,
                           const uint32_t (&columns)[4]) const {
    MTF_UNROLL(kWarpTiles)
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      MTF_UNROLL(2)
      for (int half = 0; half < 2; ++half)
        mma_16x8x16(block_, &sums[tile * 2][n * 4 + half * 2], &sums[tile * 2 + 1][n * 4 + half * 2],
                    rows[tile], columns[half * 2], columns[half * 2 + 1]);
    }
  }

  const Block& block_;
  unsigned char* shared_;
  AsyncCopies copies_;
};

}  // namespace mtf::cuda
