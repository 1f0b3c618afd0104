#include "engine/backend/cpu/contractions/winograd_tiles.h"

#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"

namespace mtf::winograd {
namespace {

/// Segments have about equally many tiles, this many at most.
constexpr int64_t kTilesOfSegment = 64;
/// Planes begin this many lines apart in a page, so that they share no set of L1.
constexpr int64_t kPlaceInPage = 5;

TileLine tile_line(const WindowAxis& axis, Convolution::Role result, const KernelCall& call, int64_t block) {
  const Window& window = axis.window();
  const Window::Local local = axis.placed.local(call, block);
  const bool entries = result == Convolution::kEntries;
  const WindowGrid& grid = entries ? window.entries : window.windows;
  TileLine line;
  line.begin = -floor_modulo(axis.placed.number(call, block) * grid.per_block - grid.margin, int64_t{2});
  line.end = entries ? axis.placed.entries : axis.placed.windows;
  line.tiles = ceil_divide(line.end - line.begin, int64_t{2});
  // Entries read windows from e - 2 - origin on, with the filter turned round.
  line.a_begin = line.begin + (entries ? -2 - local.origin : local.origin);
  line.a_first = entries ? local.first_window : local.first_entry;
  line.a_end = entries ? local.end_window : local.end_entry;
  return line;
}

}  // namespace

int64_t plane_stride(int64_t size) {
  constexpr int64_t kLinesOfPage = 4096 / (kLine * sizeof(float));
  const int64_t lines = ceil_divide(size, kLine);
  return (lines + floor_modulo(kPlaceInPage - lines, kLinesOfPage)) * kLine;
}

Tiles::Tiles(const ConvolutionPlan& plan, size_t other) : plan_(plan), other_(other) {
  images_ = size_of(plan.images);
  blocks_ = plan.windows[0].placed.blocks * plan.windows[1].placed.blocks;
  const auto most = [&](size_t w) {
    const PlacedWindow& placed = plan.windows[w].placed;
    return (plan.result == Convolution::kEntries ? placed.entries : placed.windows) / 2 + 1;
  };
  rows_ = most(0);
  segments_ = ceil_divide(most(1), kTilesOfSegment);
  in_segment_ = ceil_divide(most(1), segments_);
}

Tiles::Unit Tiles::unit(const KernelCall& call, int64_t index) const {
  Unit unit;
  unit.first = index % segments_ * in_segment_;
  unit.row = index / segments_ % rows_;
  index /= segments_ * rows_;
  unit.at = offsets_of(plan_.images, index % images_);
  index /= images_;
  for (size_t w = 2; w-- > 0;) {
    const WindowAxis& axis = plan_.windows[w];
    const int64_t block = index % axis.placed.blocks;
    for (size_t i = 0; i < 3; ++i) unit.at[i] += block * axis.block_strides[i];
    unit.lines[w] = tile_line(axis, plan_.result, call, block);
    index /= axis.placed.blocks;
  }
  if (unit.row < unit.lines[0].tiles)
    unit.tiles = std::clamp<int64_t>(unit.lines[1].tiles - unit.first, 0, in_segment_);
  return unit;
}

void Tiles::transform(const Unit& unit, const float* a, int64_t channels, float* planes, int64_t plane,
                      int64_t tile, float* scratch) const {
  const TileLine &rows = unit.lines[0], &columns = unit.lines[1];
  const int64_t width = 2 * unit.tiles + 2, row_stride = plane_stride(most_width() * channels);
  const int64_t begin = columns.a_begin + 2 * unit.first;
  const int64_t first = std::clamp<int64_t>(columns.a_first - begin, 0, width);
  const int64_t end = std::clamp<int64_t>(columns.a_end - begin, first, width);
  const float* zeros = scratch + kTile * row_stride;
  const int64_t down = plan_.windows[0].strides[kA], across = plan_.windows[1].strides[kA];
  const float* x[kTile];
  for (int64_t r = 0; r < kTile; ++r) {
    const int64_t row = rows.a_begin + 2 * unit.row + r;
    const bool exists = row >= rows.a_first && row < rows.a_end;
    x[r] = exists ? a + unit.at[kA] + row * down + (begin + first) * across : nullptr;
  }
  for (int64_t r = 0; r < kTile; ++r) {
    float* to = scratch + r * row_stride;
    std::fill(to, to + first * channels, 0.0f);
    std::fill(to + end * channels, to + width * channels, 0.0f);
  }
  const bool whole = across == channels;
  for (int64_t i = first; i < end; i += whole ? end - first : 1) {
    const float* here[kTile];
    for (int64_t r = 0; r < kTile; ++r) here[r] = x[r] ? x[r] + (i - first) * across : zeros;
    dispatched<transform_four>(here, (whole ? end - first : 1) * channels, scratch + i * channels,
                               row_stride);
  }
  for (int64_t r = 0; r < kTile; ++r)
    dispatched<transform_columns>(scratch + r * row_stride, channels, unit.tiles, channels,
                                  planes + r * kTile * plane, plane, tile);
}

int64_t Tiles::rows_scratch(int64_t channels) const {
  return kTile * plane_stride(most_width() * channels) + most_width() * channels;
}

void Tiles::clear_zeros(float* scratch, int64_t channels) const {
  float* zeros = scratch + kTile * plane_stride(most_width() * channels);
  std::fill(zeros, zeros + most_width() * channels, 0.0f);
}

}  // namespace mtf::winograd
