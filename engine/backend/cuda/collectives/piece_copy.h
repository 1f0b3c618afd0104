// A piece of a move as a copy of blocks on the device.
#pragma once

#include "engine/backend/cuda/copy_blocks.h"
#include "engine/comm/move_plan.h"

namespace mtf::cuda {

/// From the input of the piece's source to the result.
inline BlockCopy copy_of(const MovePlan& plan, const MovePiece& piece, const std::byte* input,
                         std::byte* result) {
  return {.from = input + piece.source_begin,
          .to = result + piece.begin,
          .rows = plan.rows,
          .runs = piece.count,
          .length = piece.length,
          .from_row = plan.source_row,
          .to_row = plan.result_row,
          .from_run = piece.source_step,
          .to_run = piece.step};
}

}  // namespace mtf::cuda
