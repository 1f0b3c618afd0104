#include "engine/backend/cpu/contractions/gemm_blocks.h"

#include <unistd.h>

#include <algorithm>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/cpu/contractions/thin_product.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

constexpr int64_t kDepthUnit = 16;
/// Rows of A or columns of B that are packed at a time: enough to hide the packing of the other operand, and
/// more of them for a short depth.
constexpr int64_t kUsualWidth = 512, kMostWidth = 1024;
/// The most elements that are packed at a time: most of an L2 cache of 2 MiB; and the fewest.
constexpr int64_t kPackedElements = 416 << 10, kLeastPackedElements = 32 << 10;
/// Where fewer are packed at a time, that operand is resident with which less is packed. Packing costs about four times
/// what it costs to copy B while it is multiplied.
constexpr int64_t kFewPackedElements = 128 << 10, kPackingCost = 4;
/// A stays resident if the depth is at least kLongDepth and A has at most kFewRows rows, or, where B is packed anyway, no more
/// rows than B has columns and than are packed at a time: all of B is packed for each block of A.
constexpr int64_t kLongDepth = 192, kFewRows = 64;

/// The size of the largest part if `size` is cut into about equal parts, each a multiple of `unit` and at
/// most `most`.
int64_t balanced(int64_t size, int64_t most, int64_t unit) {
  const int64_t parts = ceil_divide(size, std::max(most / unit, int64_t{1}) * unit);
  return round_up(ceil_divide(size, std::max(parts, int64_t{1})), unit);
}

/// The elements that are packed at a time on this machine: three quarters of its L2 cache.
int64_t packed_elements() {
  static const int64_t elements = [] {
    const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 where it is not known
    return bytes > 0 ? std::clamp(bytes * 3 / 16, kLeastPackedElements, kPackedElements) : kPackedElements;
  }();
  return elements;
}

}  // namespace

ProductBlocks::ProductBlocks(int64_t all_rows, int64_t all_columns, int64_t all_depth, bool in_pairs,
                             bool b_by_columns, bool a_in_place, bool b_in_place, int64_t tile_rows,
                             int64_t strip)
    : depths_of_element(in_pairs ? 2 : 1), depth(depth_block(all_depth)) {
  const int64_t packed = packed_elements() * depths_of_element;
  const int64_t usual = std::min(kUsualWidth, packed / depth);
  const int64_t width = std::clamp(packed / round_up(all_depth, depth), usual, kMostWidth);
  const bool packs_b = b_by_columns || in_pairs;
  a_resident = all_depth >= kLongDepth && all_rows <= (packs_b ? std::min(width, all_columns) : kFewRows);
  if (packed < kFewPackedElements && !a_in_place) {
    const int64_t packing_of_b = b_in_place ? 1 : kPackingCost;
    a_resident |= packing_of_b * all_columns * (ceil_divide(all_rows, width) - 1) <=
                  kPackingCost * all_rows * (ceil_divide(all_columns, width) - 1);
  }
  rows = a_resident ? balanced(all_rows, width, tile_rows) : all_rows;
  columns = a_resident ? all_columns : balanced(all_columns, width, strip);
  group = balanced(all_depth, std::max(depth, packed / (a_resident ? rows : columns)), depth);
}

int64_t ProductBlocks::elements_a(int64_t panel_rows) const {
  const int64_t elements = a_resident ? rows * group : panel_rows * depth;
  return round_up(elements / depths_of_element, kLine) + kLine;
}

int64_t depth_block(int64_t depth) {
  const int64_t blocks = std::max<int64_t>(1, ceil_divide(depth, kMaximalBlockDepth));
  return std::max<int64_t>(1, round_up(ceil_divide(depth, blocks), kDepthUnit));
}

int64_t product_scratch(int64_t rows, int64_t columns, int64_t depth) {
  const int64_t block = depth_block(depth), whole = round_up(depth, block);
  const auto resident = [&](int64_t extent, int64_t unit) {
    const int64_t width = std::min(kMostWidth, round_up(extent, unit));
    return std::min(width * whole, std::max(std::min(width, kUsualWidth) * block, kPackedElements));
  };
  int64_t most = thin_product_scratch(rows, depth);
  for (const InstructionSet set : available_instruction_sets()) {
    const GemmKernels& kernels = gemm_kernels(set);
    const int64_t strip = 2 * kernels.vector_width;
    const auto consider = [&](int64_t tile_rows, int64_t strips, int64_t depths_of_element) {
      most = std::max({most, resident(rows, tile_rows) + strips * strip * block / depths_of_element,
                       resident(columns, strip) + kPanelsAtOnce * tile_rows * block / depths_of_element});
    };
    consider(kernels.tile_rows, 1, 1);
    if (kernels.pairs) consider(kernels.pairs->tile_rows, kStripsAtOnce, 2);
  }
  return most + 2 * kLine;
}

}  // namespace mtf
