// Sizes of the operands of dispatch, combine and choice_products (engine/ops/routing.h) on one position, for their
// kernels.
#pragma once

#include <cstdint>

#include "engine/backend/kernel.h"

namespace mtf {

struct RoutingSizes {
  int64_t blocks = 1, rows = 1, capacity = 1, group = 1, choices = 1, vector = 1;
  int group_axis = 0;  ///< of tensors with tokens or choices; that of blocks is 0

  RoutingSizes() = default;
  /// `rows_of_vectors`: an operand whose last dimension is the vector.
  RoutingSizes(const LocalTensor& slot, const LocalTensor& taker, const LocalTensor& rows_of_vectors) {
    const Shape &choices_shape = slot.local, &takers = taker.local, &vectors = rows_of_vectors.local;
    group_axis = choices_shape.rank() - 2;
    group = choices_shape[group_axis].size;
    choices = choices_shape[group_axis + 1].size;
    rows = choices_shape.size() / (group * choices);
    blocks = takers[0].size;
    capacity = takers[takers.rank() - 1].size;
    vector = vectors[vectors.rank() - 1].size;
  }

  constexpr int64_t places() const { return blocks * rows * capacity; }
  constexpr int64_t tokens() const { return rows * group; }
  /// The row of tokens to which place `place` of the table belongs.
  constexpr int64_t row_of_place(int64_t place) const { return place / capacity % rows; }
};

}  // namespace mtf
