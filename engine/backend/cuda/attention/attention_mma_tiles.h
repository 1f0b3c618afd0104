// Tile products on tensor cores (see attention_fma_tiles.h for the interface) in one of the formats of
// attention_mma_formats.h, for rows of up to kWidth elements that begin at multiples of 16 bytes. Each of four
// warps has 16 or 32 rows; scores pass from one product to the next in registers, rounded to the format.
//
// Operands are stored in shared memory as rows of kWidth elements. The 16-byte chunk c of row r is stored at
// index c ^ r % 8, so that the eight rows of a matrix are in different banks. Fragments of row operands, which
// are the same for all tiles of a loop, stay in registers if kHoldsRows; their shared memory is then used for
// the second stage of the column operands.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_fma_tiles.h"
#include "engine/backend/cuda/attention/attention_mma_formats.h"

namespace mtf::cuda {

/// `kWarpTiles` is the number of 16-row tiles of a warp.
template <class Format, int kWidth, int kWarpTiles, bool kHoldsRows_, int kColumns_ = 64,
          int kScoreColumns_ = kColumns_>
class MmaTiles {
 public:
  using T = typename Format::T;
  using C = float;
  static constexpr int kThreads = 128, kRows = 64 * kWarpTiles, kColumns = kColumns_;
  static constexpr int kScoreColumns = kScoreColumns_;
  static constexpr int kThreadRows = 2 * kWarpTiles, kThreadColumns = kScoreColumns / 4;
  static constexpr int kRowLanes = 4, kGroup = 2;
  static constexpr bool kAllTerms = false, kHoldsRows = kHoldsRows_, kHasBarriers = false;
  static constexpr int kOutputColumns = kWidth, kThreadOutputs = kWidth / 4;
  static constexpr int kSteps = kWidth / Format::kDepth;  ///< products of a row
  using Scores = float[kThreadRows][kThreadColumns];
  using Output = float[kThreadRows][kThreadOutputs];
  struct RowOperand {
    unsigned char* data;
    uint32_t fragments[kHoldsRows ? kSteps : 1][kWarpTiles][4];  ///< used if kHoldsRows
  };
  struct ColumnOperand {
    unsigned char* data;
  };

  MTF_HOST_DEVICE static int64_t shared_bytes(int row_operands, int column_operands, int stages) {
    const int begin = begin_of_rows(column_operands, stages), columns = stages * column_operands * kColumns;
    const int end = begin + row_operands * kRows;
    return int64_t{kRowBytes} * (end > columns ? end : columns);
  }

  MTF_DEVICE MmaTiles(const Block& block, const AttentionView&, unsigned char* shared)
      : block_(block), shared_(shared) {}

  MTF_DEVICE int row(int i) const { return first_row() + i / 2 * 16 + i % 2 * 8 + block_.lane() / 4; }
  MTF_HOST_DEVICE static constexpr int column_step(int j) { return j / 2 * 8 + j % 2; }
  MTF_DEVICE int column(int j) const { return block_.lane() % 4 * 2 + column_step(j); }
  MTF_DEVICE int output_column(int j) const { return column(j); }

  MTF_DEVICE RowOperand row_operand(int column_operands, int stages, int i) const {
    RowOperand operand;
    operand.data = shared_ + (begin_of_rows(column_operands, stages) + i * kRows) * kRowBytes;
    return operand;
  }
  MTF_DEVICE ColumnOperand column_operand(int i) const { return {shared_ + i * kColumns * kRowBytes}; }
  MTF_DEVICE void begin(const RowOperand& operand, const TileRows<T>& rows) {
    copy<kRows>(operand.data, rows);
  }
  MTF_DEVICE void begin(const ColumnOperand& operand, const TileRows<T>& rows) {
    copy<kColumns>(operand.data, rows);
  }
  MTF_DEVICE void ready() {
    copies_.wait();
    block_.sync();
  }
  MTF_DEVICE void hold(RowOperand& operand) {
    if constexpr (kHoldsRows) {
      MTF_UNROLL(kSteps)
      for (int k = 0; k < kSteps; ++k) load_rows(operand, k, operand.fragments[k]);
    }
  }

  MTF_DEVICE void add_transposed_product(Scores& scores, const RowOperand& a, const ColumnOperand& b,
                                         int first) {
    const int lane = block_.lane();
    const int row_of_b = (first + lane / 16 * 8 + lane % 8) * kRowBytes, chunk_of_b = chunk(lane / 8 % 2);
    MTF_UNROLL(kSteps)
    for (int k = 0; k < kSteps; ++k) {
      uint32_t loaded[kWarpTiles][4];
      if constexpr (!kHoldsRows) load_rows(a, k, loaded);
      MTF_UNROLL(kScoreColumns / 16)
      for (int n = 0; n < kScoreColumns / 16; ++n) {
        uint32_t columns[4];
        load_matrices(block_, b.data, row_of_b + n * 16 * kRowBytes + (chunk_of_b ^ k * 32), columns);
        Format::round(columns);
        if constexpr (kHoldsRows) {
          multiply(scores, a.fragments[k], n, columns);
        } else {
          multiply(scores, loaded, n, columns);
        }
      }
    }
  }

  MTF_DEVICE void add_product(Output& output, const Scores& scores, const ColumnOperand& b, int first, int) {
    const typename Format::template Columns<kRowBytes> of_b(block_);
    MTF_UNROLL(kScoreColumns / Format::kDepth)
    for (int k = 0; k < kScoreColumns / Format::kDepth; ++k) {
      constexpr int kThreadDepth = Format::kDepth / 4;
      uint32_t rows[kWarpTiles][4];
      MTF_UNROLL(kWarpTiles)
      for (int tile = 0; tile < kWarpTiles; ++tile)
        Format::weights(&scores[tile * 2][k * kThreadDepth], &scores[tile * 2 + 1][k * kThreadDepth],
                        rows[tile]);
      MTF_UNROLL(kWidth / 16)
      for (int n = 0; n < kWidth / 16; ++n) {
        uint32_t columns[4];
        of_b.load(b.data, first + k * Format::kDepth, n, columns);
        multiply(output, rows, n, columns);
      }
    }
  }

  MTF_DEVICE static float weight(float logit, float top) {
    return approximate_exp2(logit * kLog2E - top * kLog2E);
  }

 private:
  static constexpr int kRowBytes = kWidth * static_cast<int>(sizeof(T)), kChunks = kRowBytes / 16;
  static constexpr int kChunkElements = 16 / static_cast<int>(sizeof(T));

  /// Row operands that are held may be where the second stage of the column operands is loaded later.
  MTF_HOST_DEVICE static constexpr int begin_of_rows(int column_operands, int stages) {
    return (kHoldsRows ? 1 : stages) * column_operands * kColumns;
  }
  MTF_DEVICE int first_row() const { return block_.warp() * kWarpTiles * 16; }

  /// The byte offset of chunk c (0 or 1) in a row whose index is lane % 8 plus a multiple of 8. The offset of
  /// chunk 2k + c differs from it by an exclusive or with 32 k.
  MTF_DEVICE int chunk(int c) const { return computed_here((c ^ block_.lane() % 8) * 16); }

  /// Loads the warp's fragments of product k.
  MTF_DEVICE void load_rows(const RowOperand& operand, int k, uint32_t (&rows)[kWarpTiles][4]) const {
    const int lane = block_.lane();
    MTF_UNROLL(kWarpTiles)
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      load_matrices(block_, operand.data,
                    (first_row() + tile * 16 + lane % 16) * kRowBytes + (chunk(lane / 16) ^ k * 32),
                    rows[tile]);
      Format::round(rows[tile]);
    }
  }

  template <int kCount>
  MTF_DEVICE void copy(unsigned char* to, const TileRows<T>& rows) {
    constexpr int kRowsAtOnce = kThreads / kChunks, kTimes = kCount / kRowsAtOnce;
    constexpr int kStep = kRowsAtOnce * kRowBytes;
    const int c = block_.thread() % kChunks, first = block_.thread() / kChunks;
    // The chunk moves where first + i * kRowsAtOnce has another remainder than `first`.
    const auto place = [at = first * kRowBytes + (c ^ first % 8) * 16](int i) {
      return (at ^ i * kRowsAtOnce % 8 * 16) + i * kStep;
    };
    const bool exists = c * kChunkElements < rows.columns;
    if (rows.fold > 1) {
      MTF_UNROLL(1)
      for (int i = 0; i < kTimes; ++i) {
        const int row = first + i * kRowsAtOnce;
        copies_.copy(to, place(i), rows.at(row) + c * kChunkElements, exists && rows.has(row));
      }
    } else {
      const T* from = rows.at(first) + c * kChunkElements;
      MTF_UNROLL(kTimes)
      for (int i = 0; i < kTimes; ++i) {
        copies_.copy(to, place(i), from, exists && rows.has(first + i * kRowsAtOnce));
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
        Format::multiply(block_, &sums[tile * 2][n * 4 + half * 2], &sums[tile * 2 + 1][n * 4 + half * 2],
                         rows[tile], columns[half * 2], columns[half * 2 + 1]);
    }
  }

  const Block& block_;
  unsigned char* shared_;
  AsyncCopies copies_;
};

}  // namespace mtf::cuda
