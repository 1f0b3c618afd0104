// Plans the copies from member to member of collectives that only move data: all_gather, all_to_all and
// exchange.
//
// Inputs and results consist of rows of bytes. The rows are those of the axes before the ones that the
// collective changes; all rows are treated alike.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf {

/// Copies `count` runs of `length` bytes within a row: run k from source_begin + k * source_step of the
/// source's row to begin + k * step of the result's row.
struct StridedCopy {
  int64_t source = 0;  ///< member whose input is read
  int64_t count = 1, length = 0;
  int64_t source_begin = 0, source_step = 0;
  int64_t begin = 0, step = 0;
};

struct MovePlan {
  int64_t rows = 1;
  int64_t source_row = 0, result_row = 0;        ///< bytes of a row
  std::vector<std::vector<StridedCopy>> pieces;  ///< copies to each member; one entry: the same for all
  bool zero = false;                             ///< bytes that no piece covers become zero

  const std::vector<StridedCopy>& of(int64_t member) const { return pieces[pieces.size() == 1 ? 0 : member]; }
  /// Returns the parts of a row of this member's result that no piece covers, if these become zero; they have
  /// no source.
  std::vector<StridedCopy> zeros(int64_t member) const;
};

MovePlan plan_moves(const Collective& collective);

/// Returns the bytes that each member of any collective receives from others if each slice is reduced by its
/// owner (reduce-scatter, then all-gather), as PreparedCollective::run() counts them.
std::vector<double> bytes_received(const Collective& collective);

/// The sizes before, along and after one axis.
struct AxisExtent {
  int64_t outer = 1, size = 1, inner = 1;

  AxisExtent(const std::vector<int64_t>& sizes, int axis);
};

}  // namespace mtf
