// Tile products with multiplications and additions in float or double, for operands of any size and
// alignment. A block has 128 threads, each with 8 x 4 elements of a tile of 64 x 64 logits. Operands are
// staged in shared memory with the depth as the outer dimension, so that a thread reads its rows and its
// columns in groups of four.
//
// The tile classes of attention (this one and that of attention_mma_tiles.h) have
//   kRows, kColumns       the size of a tile of logits
//   kScoreColumns         the columns of it that are computed at a time, beginning at a multiple of it, `first`
//   Scores, Output        registers: [kThreadRows][kThreadColumns], [kThreadRows][kThreadOutputs]
//   row(i), column(j), output_column(j)     the elements of a tile that these are, for `first` = 0
//   column_step(j)        column(j) - column(0)
//   row_operand(columns, stages, i), column_operand(i)   operand i in the shared memory of
//                         shared_bytes(rows, columns, stages); column operand `columns` * n + i: stage n of i
//   begin(operand, rows)  starts to load a tile of rows
//   ready()               waits, for the whole block, until everything that was begun is loaded
//   hold(row operand)     moves it to registers where kHoldsRows; until all threads have done so, the stages
//                         of the column operands other than the first may not be loaded
//   add_transposed_product(scores, a, b, first)    scores += a b^T
//   add_product(output, scores, b, first, begin)   output += scores b, for columns begin, begin + 1, ... of b
//   weight(logit, top)    exp(logit - top)
//   kAllTerms             true if noise by row and long biases are supported
//   kHasBarriers          true if products have barriers, so that no warp may skip one
#pragma once

#include <cstdint>

#include "engine/backend/cuda/attention/attention_norm.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// `kParts` is the number of 64-column parts of an output.
template <class T_, int kParts>
class FmaTiles {
 public:
  using T = T_;
  using C = Computed<T>;
  static constexpr int kThreads = 128, kRows = 64, kColumns = 64;
  static constexpr int kScoreColumns = kColumns;
  static constexpr int kThreadRows = 8, kThreadColumns = 4;
  static constexpr int kRowLanes = 16;  ///< neighbouring lanes that share a row
  static constexpr int kGroup = 4;      ///< neighbouring columns of a thread
  static constexpr bool kAllTerms = true, kHoldsRows = false, kHasBarriers = true;
  static constexpr int kOutputColumns = 64 * kParts, kThreadOutputs = kGroup * kParts;
  using Scores = C[kThreadRows][kThreadColumns];
  using Output = C[kThreadRows][kThreadOutputs];
  /// Operands are staged when they are multiplied. Until then they are descriptions in shared memory.
  using RowOperand = TileRows<T>*;
  using ColumnOperand = TileRows<T>*;

  MTF_HOST_DEVICE static int64_t shared_bytes(int row_operands, int column_operands, int stages) {
    return 2 * 64 * 64 * sizeof(C) + (row_operands + stages * column_operands) * sizeof(TileRows<T>);
  }

  MTF_DEVICE FmaTiles(const Block& block, const AttentionView& view, unsigned char* shared)
      : block_(block),
        aligned_(view.aligned),
        stage_(reinterpret_cast<C*>(shared)),
        scores_(stage_ + 64 * 64),
        operands_(reinterpret_cast<TileRows<T>*>(stage_ + 2 * 64 * 64)) {}

  MTF_DEVICE int row(int i) const { return block_.thread() / kRowLanes * kThreadRows + i; }
  MTF_HOST_DEVICE static constexpr int column_step(int j) { return j; }
  MTF_DEVICE int column(int j) const { return block_.thread() % kRowLanes * kThreadColumns + column_step(j); }
  MTF_DEVICE int output_column(int j) const { return j / kGroup * 64 + column(j % kGroup); }

  MTF_DEVICE RowOperand row_operand(int column_operands, int stages, int i) const {
    return operands_ + stages * column_operands + i;
  }
  MTF_DEVICE ColumnOperand column_operand(int i) const { return operands_ + i; }
  MTF_DEVICE void begin(TileRows<T>* operand, const TileRows<T>& rows) {
    if (block_.thread() == 0) *operand = rows;
  }
  MTF_DEVICE void ready() { block_.sync(); }
  MTF_DEVICE void hold(RowOperand) {}

  MTF_DEVICE void add_transposed_product(Scores& scores, RowOperand a, ColumnOperand b, int) {
    C* of_b = stage_ + kDepth * 64;
    const int depth = a->columns;
    for (int begin = 0; begin < depth; begin += kDepth) {
      block_.sync();
      stage_transposed(*a, begin, stage_);
      stage_transposed(*b, begin, of_b);
      block_.sync();
      const int rest = depth - begin;
      for (int k = 0; k < kDepth && k < rest; ++k) add_outer_product(scores, 0, stage_, of_b, k);
    }
  }

  MTF_DEVICE void add_product(Output& output, const Scores& scores, ColumnOperand b, int, int begin) {
    block_.sync();
    for (int j = 0; j < kThreadColumns; ++j) {
      for (int half = 0; half < 2; ++half) {
        Pack<C, 4> rows;
        for (int i = 0; i < 4; ++i) rows[i] = scores[half * 4 + i][j];
        store(group(scores_, column(j), row(0) / 4 + half), rows);
      }
    }
    MTF_UNROLL(kParts)
    for (int part = 0; part < kParts; ++part) {
      if (begin + part * 64 >= b->columns) break;
      if (part > 0) block_.sync();
      stage(*b, begin + part * 64);
      block_.sync();
      for (int k = 0; k < 64; ++k) add_outer_product(output, part * kGroup, scores_, stage_, k);
    }
  }

  MTF_DEVICE static C weight(C logit, C top) { return exponential(logit - top); }

 private:
  static constexpr int kDepth = 32;

  /// The entries 4g ... 4g + 3 at depth k. Groups are permuted, so that lanes with different rows or depths
  /// use different banks.
  MTF_DEVICE static C* group(C* tile, int k, int g) { return tile + k * 64 + (g ^ (k / 4 % 8)) * 4; }

  /// Loads columns k ... k + 3 of a row.
  MTF_DEVICE Pack<C, 4> load_columns(const TileRows<T>& rows, int row, int k) const {
    Pack<C, 4> result{};
    const int rest = rows.columns - k;
    if (!rows.has(row) || rest <= 0) return result;
    const T* from = rows.at(row) + k;
    if (aligned_ && rest >= 4) {
      const Pack<T, 4> pack = load<4>(from);
      for (int i = 0; i < 4; ++i) result[i] = widen(pack[i]);
    } else {
      for (int i = 0; i < 4; ++i) {
        if (i < rest) result[i] = widen(from[i]);
      }
    }
    return result;
  }

  /// Stages columns `begin` ... begin + kDepth - 1 with the columns as depth.
  MTF_DEVICE void stage_transposed(const TileRows<T>& rows, int begin, C* to) const {
    constexpr int kGroups = kDepth / 4, kLoads = 64 * kGroups / kThreads;
    MTF_UNROLL(kLoads)
    for (int i = 0; i < kLoads; ++i) {
      const int load = block_.thread() + i * kThreads, k = load % kGroups * 4, row = load / kGroups;
      const Pack<C, 4> columns = load_columns(rows, row, begin + k);
      for (int e = 0; e < 4; ++e) group(to, k + e, row / 4)[row % 4] = columns[e];
    }
  }

  /// Stages 64 columns with the rows as depth.
  MTF_DEVICE void stage(const TileRows<T>& rows, int begin) const {
    constexpr int kGroups = 16, kLoads = 64 * kGroups / kThreads;
    MTF_UNROLL(kLoads)
    for (int i = 0; i < kLoads; ++i) {
      const int load = block_.thread() + i * kThreads, row = load / kGroups, g = load % kGroups;
      store(group(stage_, row, g), load_columns(rows, row, begin + g * 4));
    }
  }

  /// sums[i][first + j] += a[k][row(i)] b[k][column(j)]
  template <int kSums>
  MTF_DEVICE void add_outer_product(C (&sums)[kThreadRows][kSums], int first, C* a, C* b, int k) const {
    const Pack<C, 4> rows[2] = {load<4>(group(a, k, row(0) / 4)), load<4>(group(a, k, row(0) / 4 + 1))};
    const Pack<C, 4> columns = load<4>(group(b, k, column(0) / 4));
    MTF_UNROLL(kThreadRows)
    for (int i = 0; i < kThreadRows; ++i) {
      MTF_UNROLL(4)
      for (int j = 0; j < 4; ++j) sums[i][first + j] += rows[i / 4][i % 4] * columns[j];
    }
  }

  const Block& block_;
  bool aligned_;
  C* stage_;   ///< two tiles of kDepth x 64, or one of 64 x 64
  C* scores_;  ///< [columns][rows]
  TileRows<T>* operands_;
};

}  // namespace mtf::cuda
