// The rows of experts on one position (engine/ops/expert_product.h), for kernels.
#pragma once

#include <cstdint>

#include "engine/backend/kernel.h"

namespace mtf {

struct ExpertRows {
  int64_t blocks = 1, groups = 1, capacity = 1;
  int64_t per_block = 1;  ///< experts of a block

  ExpertRows() = default;
  ExpertRows(const LocalTensor& x, const LocalTensor& offsets) {
    const Shape &rows = x.local, &ends = offsets.local;
    blocks = rows[0].size;
    capacity = rows[rows.rank() - 2].size;
    groups = rows.size() / (blocks * capacity * rows[rows.rank() - 1].size);
    per_block = ends[ends.rank() - 1].size - 1;
  }

  constexpr int64_t experts() const { return blocks * per_block; }
  /// The segments of rows of blocks and groups, each with `capacity` rows.
  constexpr int64_t segments() const { return blocks * groups; }
  /// The segment of an expert in a group, and where its offsets are.
  constexpr int64_t segment(int64_t expert, int64_t group) const {
    return expert / per_block * groups + group;
  }
  constexpr const int32_t* range(const int32_t* offsets, int64_t expert, int64_t group) const {
    return offsets + segment(expert, group) * (per_block + 1) + expert % per_block;
  }
};

}  // namespace mtf
