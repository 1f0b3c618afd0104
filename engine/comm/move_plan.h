// What the collectives that only move data copy from which member to which: all_gather, all_to_all and
// exchange.
//
// Inputs and results are rows of bytes, those of the axes before the ones that the collective is about; every
// row is treated alike.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf {

/// `count` runs of `length` bytes within a row: run k goes from source_begin + k * source_step of the
/// source's row to begin + k * step of the result's.
struct StridedCopy {
  int64_t source = 0;  ///< member
  int64_t count = 1, length = 0;
  int64_t source_begin = 0, source_step = 0;
  int64_t begin = 0, step = 0;
};

struct MovePlan {
  int64_t rows = 1;
  int64_t source_row = 0, result_row = 0;        ///< bytes
  std::vector<std::vector<StridedCopy>> pieces;  ///< by member; one entry: the same for all
  bool zero = false;                             ///< what no piece covers is zero

  const std::vector<StridedCopy>& of(int64_t member) const { return pieces[pieces.size() == 1 ? 0 : member]; }
  /// What no piece covers in a row of this member's result, where that is zero: runs without a source.
  std::vector<StridedCopy> zeros(int64_t member) const;
};

MovePlan plan_moves(const Collective& collective);

/// Bytes that each member of any collective receives from others when every slice is reduced by its owner
/// (reduce-scatter, then all-gather), by member: what PreparedCollective::run counts.
std::vector<double> bytes_received(const Collective& collective);

/// Sizes before, along and after one axis.
struct AxisExtent {
  int64_t outer = 1, size = 1, inner = 1;

  AxisExtent(const std::vector<int64_t>& sizes, int axis);
};

}  // namespace mtf
