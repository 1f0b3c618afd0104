#include "engine/ops/halo.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/ops/concat.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"

namespace mtf {
namespace {

/// Returns the `halo` entries before each block, the nearest last: the end of a block, then whole blocks.
Tensors left_margin(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                    bool wrap) {
  const int64_t size = x.shape().dimension(block_size).size;
  const int64_t whole = halo / size, rest = halo % size;
  Tensors margin;
  if (rest > 0) margin.push_back(shift(slice(x, block_size, size - rest, rest), whole + 1, blocks, wrap));
  for (int64_t i = whole; i > 0; --i) margin.push_back(shift(x, i, blocks, wrap));
  return margin;
}

/// Returns the `halo` entries behind each block, the nearest first: whole blocks, then the beginning of one.
Tensors right_margin(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                     bool wrap) {
  const int64_t size = x.shape().dimension(block_size).size;
  const int64_t whole = halo / size, rest = halo % size;
  Tensors margin;
  for (int64_t i = 1; i <= whole; ++i) margin.push_back(shift(x, -i, blocks, wrap));
  if (rest > 0) margin.push_back(shift(slice(x, block_size, 0, rest), -(whole + 1), blocks, wrap));
  return margin;
}

}  // namespace

Tensor halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t left,
                     int64_t right, bool wrap) {
  if (left < 0 || right < 0)
    shape_error("halo_exchange", fmt::format("a halo of {} entries", std::min(left, right)), "at least 0");
  Tensors parts = left_margin(x, blocks, block_size, left, wrap);
  parts.push_back(x);
  for (const Tensor& t : right_margin(x, blocks, block_size, right, wrap)) parts.push_back(t);
  return parts.size() == 1 ? x : concat(parts, block_size);
}

Tensor halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                     bool wrap) {
  return halo_exchange(x, blocks, block_size, halo, halo, wrap);
}

Tensor left_halo_exchange(const Tensor& x, DimensionName blocks, DimensionName block_size, int64_t halo,
                          bool wrap) {
  return halo_exchange(x, blocks, block_size, halo, 0, wrap);
}

}  // namespace mtf
