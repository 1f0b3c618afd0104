// Tiles are counted from the first entry of a dimension in all of it, not of a slice: where a slice begins in the middle of
// a tile, the tile is computed and half of it dropped, so that cutting space changes no bit. The entries that such a half
// would need are not read by the other half, and count as zero.
#include "engine/backend/cpu/contractions/winograd.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/contractions/convolution_plan.h"
#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/base/dispatch.h"
#include "engine/base/instruction_set.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// A tile of A has 4 x 4 entries, of which each place is a plane of a matrix product.
constexpr int64_t kTile = 4, kPlanes = kTile * kTile;
/// Channels, columns and entries of space with which the transforms pay.
constexpr int64_t kFewestChannels = 16, kFewestEntries = 4;
/// Tiles of one matrix product, and of one row of tiles that are transformed together.
constexpr int64_t kTilesAtOnce = 128, kTilesOfSegment = 64;
/// Columns (and channels, where the filter is computed) of a task.
constexpr int64_t kColumnsAtOnce = 128;
constexpr int64_t kTasksWanted = 8;
constexpr int64_t kLine = 16;  ///< elements of a cache line
constexpr int64_t kPlaceInPage =
    5;  ///< planes begin this many lines apart in a page, so that they share no set of L1

int64_t round_up(int64_t size, int64_t unit) { return ceil_divide(size, unit) * unit; }

/// The distance of planes that have `size` elements.
int64_t plane_stride(int64_t size) {
  constexpr int64_t kLinesOfPage = 4096 / (kLine * sizeof(float));
  const int64_t lines = ceil_divide(size, kLine);
  return (lines + floor_modulo(kPlaceInPage - lines, kLinesOfPage)) * kLine;
}

/// rows[a] = row a of Bt times the four rows of x; a null row is zero.
MTF_INLINE void transform_rows(const float* const x[kTile], int64_t size, float* rows, int64_t stride) {
  const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    rows[i] = x0[i] - x2[i];
    rows[stride + i] = x1[i] + x2[i];
    rows[2 * stride + i] = x2[i] - x1[i];
    rows[3 * stride + i] = x1[i] - x3[i];
  }
}

/// planes[b] = the four columns of a tile, `apart` elements apart, times column b of B.
MTF_INLINE void transform_columns(const float* x, int64_t apart, int64_t tiles, int64_t channels,
                                  float* planes, int64_t plane, int64_t tile) {
  for (int64_t t = 0; t < tiles; ++t, x += 2 * apart, planes += tile) {
    const float *x0 = x, *x1 = x + apart, *x2 = x + 2 * apart, *x3 = x + 3 * apart;
#pragma GCC ivdep
    for (int64_t i = 0; i < channels; ++i) {
      planes[i] = x0[i] - x2[i];
      planes[plane + i] = x1[i] + x2[i];
      planes[2 * plane + i] = x2[i] - x1[i];
      planes[3 * plane + i] = x1[i] - x3[i];
    }
  }
}

/// 16 neighbours. The longer transforms work on whole lines, so that the bits of an element do not depend on the place that
/// it has in a row. Planes have whole lines; of other operands the rest of a row is copied.
typedef float Line __attribute__((vector_size(kLine * sizeof(float))));

MTF_INLINE void load(const float* from, int64_t left, Line& line) {
  if (left >= kLine) {
    std::memcpy(&line, from, sizeof line);
  } else {
    line = Line{};
    std::memcpy(&line, from, static_cast<size_t>(left) * sizeof(float));
  }
}
MTF_INLINE void store(const Line& line, int64_t left, float* to) {
  std::memcpy(to, &line, static_cast<size_t>(std::min(left, kLine)) * sizeof(float));
}
MTF_INLINE void load_plane(const float* from, Line& line) { std::memcpy(&line, from, sizeof line); }
MTF_INLINE void store_plane(const Line& line, float* to) { std::memcpy(to, &line, sizeof line); }

/// y = At m A for the 16 planes of a tile.
MTF_INLINE void transform_result(const float* planes, int64_t plane, int64_t size, float* const y[4]) {
  for (int64_t i = 0; i < size; i += kLine) {
    Line left[kTile], right[kTile];
    for (int64_t a = 0; a < kTile; ++a) {
      Line m[kTile];
      for (int64_t b = 0; b < kTile; ++b) load_plane(planes + (a * kTile + b) * plane + i, m[b]);
      left[a] = m[0] + m[1] + m[2];
      right[a] = m[1] - m[2] - m[3];
    }
    store(left[0] + left[1] + left[2], size - i, y[0] + i);
    store(right[0] + right[1] + right[2], size - i, y[1] + i);
    store(left[1] - left[2] - left[3], size - i, y[2] + i);
    store(right[1] - right[2] - right[3], size - i, y[3] + i);
  }
}

/// The 16 planes of A y At.
MTF_INLINE void transform_windows(const float* const y[4], int64_t size, float* planes, int64_t plane) {
  for (int64_t i = 0; i < size; i += kLine) {
    Line x[4];
    for (int k = 0; k < 4; ++k) load(y[k] + i, size - i, x[k]);
    const Line left[kTile] = {x[0], x[0] + x[2], x[0] - x[2], -x[2]};
    const Line right[kTile] = {x[1], x[1] + x[3], x[1] - x[3], -x[3]};
    for (int64_t a = 0; a < kTile; ++a) {
      float* to = planes + a * kTile * plane + i;
      store_plane(left[a], to);
      store_plane(left[a] + right[a], to + plane);
      store_plane(left[a] - right[a], to + 2 * plane);
      store_plane(-right[a], to + 3 * plane);
    }
  }
}

/// The 16 planes of G g Gt for 3 x 3 places of a filter.
MTF_INLINE void transform_filter(const float* const g[9], int64_t size, float* planes, int64_t plane) {
  for (int64_t i = 0; i < size; i += kLine) {
    Line rows[kTile][3];
    for (int q = 0; q < 3; ++q) {
      Line x[3];
      for (int p = 0; p < 3; ++p) load(g[3 * p + q] + i, size - i, x[p]);
      rows[0][q] = x[0];
      rows[1][q] = 0.5f * (x[0] + x[2]) + 0.5f * x[1];
      rows[2][q] = 0.5f * (x[0] + x[2]) - 0.5f * x[1];
      rows[3][q] = x[2];
    }
    for (int64_t a = 0; a < kTile; ++a) {
      float* to = planes + a * kTile * plane + i;
      const Line outer = 0.5f * (rows[a][0] + rows[a][2]), middle = 0.5f * rows[a][1];
      store_plane(rows[a][0], to);
      store_plane(outer + middle, to + plane);
      store_plane(outer - middle, to + 2 * plane);
      store_plane(rows[a][2], to + 3 * plane);
    }
  }
}

/// g = Gt u G for the 16 planes.
MTF_INLINE void transform_filter_gradient(const float* planes, int64_t plane, int64_t size,
                                          float* const g[9]) {
  for (int64_t i = 0; i < size; i += kLine) {
    Line columns[kTile][3];
    for (int64_t a = 0; a < kTile; ++a) {
      Line u[kTile];
      for (int64_t b = 0; b < kTile; ++b) load_plane(planes + (a * kTile + b) * plane + i, u[b]);
      const Line sum = 0.5f * (u[1] + u[2]);
      columns[a][0] = u[0] + sum;
      columns[a][1] = 0.5f * (u[1] - u[2]);
      columns[a][2] = sum + u[3];
    }
    for (int q = 0; q < 3; ++q) {
      const Line sum = 0.5f * (columns[1][q] + columns[2][q]);
      store(columns[0][q] + sum, size - i, g[q] + i);
      store(0.5f * (columns[1][q] - columns[2][q]), size - i, g[3 + q] + i);
      store(sum + columns[3][q], size - i, g[6 + q] + i);
    }
  }
}

/// Tiles of 2 along a dimension, in one block: tile t has the local indices begin + 2t and begin + 2t + 1 of the 2 x 2 side,
/// and reads the four indices of A from a_begin + 2t on.
struct TileLine {
  int64_t tiles = 0;
  int64_t begin = 0, end = 0;                   ///< of the 2 x 2 side; `begin` is 0 or -1
  int64_t a_begin = 0, a_first = 0, a_end = 0;  ///< A has only the indices a_first .. a_end - 1

  /// The first and the end of the planes along the dimension that count: three, if there is but half a tile.
  int64_t first_plane() const { return begin < 0 && end == 1 ? 1 : 0; }
  int64_t end_plane() const { return begin == 0 && end == 1 ? kTile - 1 : kTile; }
};

/// The planes that count for some of the units of a product.
struct PlaneRange {
  int64_t first[2] = {kTile, kTile}, end[2] = {0, 0};

  void add(const TileLine lines[2]) {
    for (int w = 0; w < 2; ++w) {
      first[w] = std::min(first[w], lines[w].first_plane());
      end[w] = std::max(end[w], lines[w].end_plane());
    }
  }
  bool has(int64_t plane) const {
    const int64_t at[2] = {plane / kTile, plane % kTile};
    return at[0] >= first[0] && at[0] < end[0] && at[1] >= first[1] && at[1] < end[1];
  }
};

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

/// The tiles of a convolution in units: segments of rows of tiles.
class Tiles {
 public:
  Tiles(const ConvolutionPlan& plan, size_t other) : plan_(plan), other_(other) {
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

  int64_t units() const { return blocks_ * images_ * rows_ * segments_; }
  int64_t most_in_unit() const { return in_segment_; }

  /// A segment of a row of tiles.
  struct Unit {
    Offsets<3> at{};  ///< of the image and block
    TileLine lines[2];
    int64_t row = 0, first = 0, tiles = 0;  ///< no tiles: the block has fewer rows or columns than others
  };
  Unit unit(const KernelCall& call, int64_t index) const {
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

  /// Transforms the tiles of A: planes[i] + t * tile has the channels of tile t. `scratch` has rows_scratch() elements.
  void transform(const Unit& unit, const float* a, int64_t channels, float* planes, int64_t plane,
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
      dispatched<transform_rows>(here, (whole ? end - first : 1) * channels, scratch + i * channels,
                                 row_stride);
    }
    for (int64_t r = 0; r < kTile; ++r)
      dispatched<transform_columns>(scratch + r * row_stride, channels, unit.tiles, channels,
                                    planes + r * kTile * plane, plane, tile);
  }
  int64_t rows_scratch(int64_t channels) const {
    return kTile * plane_stride(most_width() * channels) + most_width() * channels;
  }
  /// The zeros at the end of the scratch memory of transform().
  void clear_zeros(float* scratch, int64_t channels) const {
    float* zeros = scratch + kTile * plane_stride(most_width() * channels);
    std::fill(zeros, zeros + most_width() * channels, 0.0f);
  }

  /// Visits the tiles of a unit with the four places of the 2 x 2 side, in elements of that operand or -1.
  template <class Visit>
  int64_t for_each_tile(const Unit& unit, Visit&& visit) const {
    const auto place = [&](const TileLine& line, int64_t tile, int64_t i) {
      const int64_t index = line.begin + 2 * tile + i;
      return index >= 0 && index < line.end ? index : -1;
    };
    int64_t entries = 0;
    for (int64_t t = 0; t < unit.tiles; ++t) {
      int64_t at[4];
      for (int i = 0; i < 4; ++i) {
        const int64_t row = place(unit.lines[0], unit.row, i / 2);
        const int64_t column = place(unit.lines[1], unit.first + t, i % 2);
        at[i] = row < 0 || column < 0 ? -1
                                      : unit.at[other_] + row * plan_.windows[0].strides[other_] +
                                            column * plan_.windows[1].strides[other_];
        entries += at[i] >= 0;
      }
      visit(t, at);
    }
    return entries;
  }

 private:
  int64_t most_width() const { return 2 * in_segment_ + 2; }

  const ConvolutionPlan& plan_;
  size_t other_;  ///< the operand that is the 2 x 2 side
  int64_t images_ = 1, blocks_ = 1, rows_ = 1, segments_ = 1, in_segment_ = 1;
};

/// A part of the scratch memory of a kernel.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* memory) : memory_(reinterpret_cast<float*>(memory)) {}
  float* take(int64_t elements) {
    float* part = memory_ ? memory_ + used_ : nullptr;
    used_ += round_up(elements, kLine);
    return part;
  }
  size_t bytes() const { return static_cast<size_t>(used_) * sizeof(float); }

 private:
  float* memory_;
  int64_t used_ = 0;
};

/// Computes windows, or entries (with the filter turned round).
class WinogradKernel final : public Kernel {
 public:
  explicit WinogradKernel(ConvolutionPlan plan)
      : plan_(std::move(plan)), tiles_(plan_, kC), channels_(size_of(plan_.channels)) {
    columns_at_once_ = std::min(plan_.columns.size, kColumnsAtOnce);
    column_parts_ = ceil_divide(plan_.columns.size, columns_at_once_);
    const int64_t most = std::max<int64_t>(1, tiles_.units() * tiles_.most_in_unit() / kTilesAtOnce);
    units_at_once_ = ceil_divide(tiles_.units(), std::clamp<int64_t>(kTasksWanted / column_parts_, 1, most));
    unit_parts_ = ceil_divide(tiles_.units(), units_at_once_);
  }

  int64_t tasks() const override { return column_parts_ * unit_parts_; }
  size_t scratch_bytes() const override { return Scratch(*this, nullptr).bytes; }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    int64_t entries = 0;
    const Scratch scratch(*this, call.scratch);
    tiles_.clear_zeros(scratch.rows, channels_);
    int64_t filter_column = -1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task / unit_parts_ * columns_at_once_;
      const int64_t columns = std::min(columns_at_once_, plan_.columns.size - column);
      if (column != filter_column) make_filter(call, column, columns, scratch);
      filter_column = column;
      const int64_t first = task % unit_parts_ * units_at_once_;
      const int64_t last = std::min(tiles_.units(), first + units_at_once_);
      entries += columns * run_units(call, column, columns, first, last, scratch);
    }
    return 2 * 9 * channels_ * entries;
  }

 private:
  struct Scratch {
    Scratch(const WinogradKernel& kernel, std::byte* memory) {
      ScratchParts parts(memory);
      const int64_t channels = kernel.channels_, columns = round_up(kernel.columns_at_once_, kLine);
      turned_row = round_up(channels, kLine);
      filter_plane = plane_stride(turned_row * columns);
      tile = round_up(channels, kLine) + kLine;  // not a power of two, which would fall into few sets of L1
      tiles_plane = plane_stride(kernel.most_tiles() * tile);
      result_plane = plane_stride(kernel.most_tiles() * columns);
      turned_plane = plane_stride(kLine * turned_row);
      filter = parts.take(kPlanes * filter_plane);
      tiles = parts.take(kPlanes * tiles_plane);
      result = parts.take(kPlanes * result_plane);
      rows = parts.take(kernel.tiles_.rows_scratch(channels));
      dropped = parts.take(columns);
      turned = parts.take(kPlanes * turned_plane);
      product = parts.take(product_scratch(kernel.most_tiles(), columns, channels));
      bytes = parts.bytes();
    }
    int64_t turned_row, tile, filter_plane, tiles_plane, result_plane, turned_plane;
    float *filter, *tiles, *result, *rows, *dropped, *turned, *product;
    size_t bytes;
  };

  int64_t most_tiles() const { return std::max(kTilesAtOnce, tiles_.most_in_unit()); }

  /// Computes the planes [channel][column] of the filter.
  void make_filter(const KernelCall& call, int64_t column, int64_t columns, const Scratch& scratch) const {
    const bool turned = plan_.result == Convolution::kEntries;
    const int64_t row_stride = round_up(columns_at_once_, kLine);
    const StridedAxis<3> channel = plan_.channels.empty() ? StridedAxis<3>{} : plan_.channels[0];
    const float* b = call.input<float>(turned ? 0 : 1) + column * plan_.columns.strides[kB];
    const auto places = [&](const float* from) {
      std::array<const float*, 9> g;
      for (int64_t k = 0; k < 9; ++k) {
        const int64_t place = turned ? 8 - k : k;
        g[static_cast<size_t>(k)] =
            from + place / 3 * plan_.windows[0].strides[kB] + place % 3 * plan_.windows[1].strides[kB];
      }
      return g;
    };
    if (!turned) {
      for (int64_t c = 0; c < channels_; ++c)
        dispatched<transform_filter>(places(b + c * channel.strides[kB]).data(), columns,
                                     scratch.filter + c * row_stride, scratch.filter_plane);
      return;
    }
    // Channels are neighbours: some columns are transformed, then transposed, in whole lines.
    const GemmKernels& kernels = gemm_kernels(instruction_set());
    for (int64_t first = 0; first < columns; first += kLine) {
      const int64_t count = std::min(kLine, columns - first);
      for (int64_t i = 0; i < count; ++i)
        dispatched<transform_filter>(places(b + (first + i) * plan_.columns.strides[kB]).data(), channels_,
                                     scratch.turned + i * scratch.turned_row, scratch.turned_plane);
      for (int64_t p = 0; p < kPlanes; ++p)
        kernels.pack({.data = scratch.turned + p * scratch.turned_plane,
                      .width = count,
                      .stride = scratch.turned_row,
                      .depth = scratch.turned_row,
                      .depth_stride = 1},
                     scratch.filter + p * scratch.filter_plane + first, row_stride);
    }
  }

  /// Returns the entries of the result that it wrote, of one column.
  int64_t run_units(const KernelCall& call, int64_t column, int64_t columns, int64_t first, int64_t last,
                    const Scratch& scratch) const {
    const float* a = call.input<float>(plan_.result == Convolution::kEntries ? 1 : 0);
    int64_t entries = 0;
    for (int64_t next = first; next < last;) {
      int64_t tiles = 0;
      PlaneRange planes;
      const int64_t begin = next;
      for (; next < last; ++next) {
        const Tiles::Unit unit = tiles_.unit(call, next);
        if (tiles + unit.tiles > most_tiles()) break;
        if (unit.tiles > 0)
          tiles_.transform(unit, a, channels_, scratch.tiles + tiles * scratch.tile, scratch.tiles_plane,
                           scratch.tile, scratch.rows);
        tiles += unit.tiles;
        planes.add(unit.lines);
      }
      if (tiles > 0) multiply_planes(planes, tiles, columns, scratch);
      entries += store(call, column, columns, begin, next, scratch);
    }
    return entries;
  }

  /// Other planes keep what they had, which only entries have that are dropped.
  void multiply_planes(const PlaneRange& planes, int64_t tiles, int64_t columns,
                       const Scratch& scratch) const {
    const int64_t row_stride = round_up(columns_at_once_, kLine);
    const SummedAxis summed{channels_, 1, row_stride};
    for (int64_t p = 0; p < kPlanes; ++p) {
      if (!planes.has(p)) continue;
      multiply(Product<float>{.rows = tiles,
                              .columns = columns,
                              .summed = {&summed, 1},
                              .a = scratch.tiles + p * scratch.tiles_plane,
                              .a_row_stride = scratch.tile,
                              .b = scratch.filter + p * scratch.filter_plane,
                              .b_column_stride = 1,
                              .c = scratch.result + p * scratch.result_plane,
                              .c_row_stride = row_stride},
               scratch.product);
    }
  }

  int64_t store(const KernelCall& call, int64_t column, int64_t columns, int64_t begin, int64_t end,
                const Scratch& scratch) const {
    float* out = call.output<float>(0) + column;
    int64_t entries = 0;
    const float* result = scratch.result;
    for (int64_t index = begin; index < end; ++index) {
      entries += tiles_.for_each_tile(tiles_.unit(call, index), [&](int64_t, const int64_t at[4]) {
        float* y[4];
        for (int i = 0; i < 4; ++i) y[i] = at[i] >= 0 ? out + at[i] : scratch.dropped;
        dispatched<transform_result>(result, scratch.result_plane, columns, y);
        result += round_up(columns_at_once_, kLine);
      });
    }
    return entries;
  }

  ConvolutionPlan plan_;
  Tiles tiles_;
  int64_t channels_ = 1, columns_at_once_ = 1, column_parts_ = 1, units_at_once_ = 1, unit_parts_ = 1;
};

/// Computes the gradient of the filter: rows of the products are channels, tiles are summed.
class WinogradFilterKernel final : public Kernel {
 public:
  explicit WinogradFilterKernel(ConvolutionPlan plan)
      : plan_(std::move(plan)), tiles_(plan_, kB), channels_(size_of(plan_.channels)) {
    columns_at_once_ = std::min(plan_.columns.size, kColumnsAtOnce);
    column_parts_ = ceil_divide(plan_.columns.size, columns_at_once_);
    channels_at_once_ = std::min(channels_, column_parts_ > 1 ? kColumnsAtOnce : kColumnsAtOnce / 2);
    channel_parts_ = ceil_divide(channels_, channels_at_once_);
  }

  int64_t tasks() const override { return column_parts_ * channel_parts_; }
  size_t scratch_bytes() const override { return Scratch(*this, nullptr).bytes; }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    const Scratch scratch(*this, call.scratch);
    int64_t flops = 0;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task / channel_parts_ * columns_at_once_;
      const int64_t columns = std::min(columns_at_once_, plan_.columns.size - column);
      const int64_t channel = task % channel_parts_ * channels_at_once_;
      const int64_t channels = std::min(channels_at_once_, channels_ - channel);
      tiles_.clear_zeros(scratch.rows, channels);
      const int64_t windows = sum_tiles(call, channel, channels, column, columns, scratch);
      store(call, channel, channels, column, columns, scratch);
      flops += 2 * 9 * windows * channels * columns;
    }
    return flops;
  }

 private:
  struct Scratch {
    Scratch(const WinogradFilterKernel& kernel, std::byte* memory) {
      ScratchParts parts(memory);
      row = round_up(kernel.columns_at_once_, kLine);
      channels = kernel.channels_at_once_;
      tile = round_up(channels, kLine) + kLine;
      const int64_t tiles = std::max(kTilesAtOnce, kernel.tiles_.most_in_unit());
      entries_plane = plane_stride(tiles * tile);
      windows_plane = plane_stride(tiles * row);
      sums_plane = plane_stride(channels * row);
      entries = parts.take(kPlanes * entries_plane);
      windows = parts.take(kPlanes * windows_plane);
      sums = parts.take(kPlanes * sums_plane);
      rows = parts.take(kernel.tiles_.rows_scratch(channels));
      zeros = parts.take(row);
      product = parts.take(product_scratch(channels, row, tiles));
      bytes = parts.bytes();
    }
    int64_t row, channels, tile, entries_plane, windows_plane, sums_plane;
    float *entries, *windows, *sums, *rows, *zeros, *product;
    size_t bytes;
  };

  /// Returns the number of windows.
  int64_t sum_tiles(const KernelCall& call, int64_t channel, int64_t channels, int64_t column,
                    int64_t columns, const Scratch& scratch) const {
    const float *a = call.input<float>(0) + channel, *b = call.input<float>(1) + column;
    std::fill(scratch.zeros, scratch.zeros + columns, 0.0f);
    const int64_t at_once = std::max<int64_t>(1, kTilesAtOnce / tiles_.most_in_unit());
    int64_t all = 0;
    bool adds[kPlanes] = {};
    for (int64_t first = 0; first < tiles_.units(); first += at_once) {
      int64_t tiles = 0;
      PlaneRange planes;
      for (int64_t i = first; i < std::min(tiles_.units(), first + at_once); ++i) {
        const Tiles::Unit unit = tiles_.unit(call, i);
        if (unit.tiles == 0) continue;
        tiles_.transform(unit, a, channels, scratch.entries + tiles * scratch.tile, scratch.entries_plane,
                         scratch.tile, scratch.rows);
        all += tiles_.for_each_tile(unit, [&](int64_t t, const int64_t at[4]) {
          const float* y[4];
          for (int k = 0; k < 4; ++k) y[k] = at[k] >= 0 ? b + at[k] : scratch.zeros;
          dispatched<transform_windows>(y, columns, scratch.windows + (tiles + t) * scratch.row,
                                        scratch.windows_plane);
        });
        tiles += unit.tiles;
        planes.add(unit.lines);
      }
      const SummedAxis summed{tiles, scratch.tile, scratch.row};
      for (int64_t p = 0; p < kPlanes; ++p) {
        if (!planes.has(p)) continue;
        multiply(Product<float>{.rows = channels,
                                .columns = columns,
                                .summed = {&summed, 1},
                                .a = scratch.entries + p * scratch.entries_plane,
                                .a_row_stride = 1,
                                .b = scratch.windows + p * scratch.windows_plane,
                                .b_column_stride = 1,
                                .c = scratch.sums + p * scratch.sums_plane,
                                .c_row_stride = scratch.row,
                                .adds = adds[p]},
                 scratch.product);
        adds[p] = true;
      }
    }
    for (int64_t p = 0; p < kPlanes; ++p) {
      float* sums = scratch.sums + p * scratch.sums_plane;
      if (!adds[p]) std::fill(sums, sums + channels * scratch.row, 0.0f);
    }
    return all;
  }

  void store(const KernelCall& call, int64_t channel, int64_t channels, int64_t column, int64_t columns,
             const Scratch& scratch) const {
    const int64_t stride = plan_.channels.empty() ? 0 : plan_.channels[0].strides[kC];
    for (int64_t c = 0; c < channels; ++c) {
      float* g[9];
      for (int64_t k = 0; k < 9; ++k)
        g[k] = call.output<float>(0) + (channel + c) * stride + column +
               k / 3 * plan_.windows[0].strides[kC] + k % 3 * plan_.windows[1].strides[kC];
      dispatched<transform_filter_gradient>(scratch.sums + c * scratch.row, scratch.sums_plane, columns, g);
    }
  }

  ConvolutionPlan plan_;
  Tiles tiles_;
  int64_t channels_ = 1, channels_at_once_ = 1, channel_parts_ = 1;
  int64_t columns_at_once_ = 1, column_parts_ = 1;
};

/// Whether the method fits, by what is declared.
bool fits(const ConvolutionOperands& operands) {
  const Convolution& operation = operands.operation;
  if (operation.windows.size() != 2) return false;
  for (const Window& w : operation.windows) {
    if (w.size != 3 || w.stride != 1 || w.dilation != 1) return false;
    if (std::min(w.entries.size, w.windows.size) < kFewestEntries) return false;
  }
  const ConvolutionClasses& classes = operands.classes;
  if (classes.groups.rank() > 0 || classes.inputs.rank() != 1 || classes.outputs.rank() != 1) return false;
  const Dimension in = classes.inputs[0], out = classes.outputs[0];
  const auto last = [&](Convolution::Role role, const Dimension& d) {
    return operands.by_role[role]->global.dimensions().back().name == d.name;
  };
  return std::min(in.size, out.size) >= kFewestChannels && last(Convolution::kEntries, in) &&
         last(Convolution::kFilter, out) && last(Convolution::kWindows, out);
}

}  // namespace

std::unique_ptr<Kernel> winograd_kernel(const KernelContext& context) {
  const ConvolutionOperands operands(context);
  for (const LocalTensor* x : operands.by_role) {
    if (x->dtype != DType::kFloat32) return nullptr;
  }
  if (!fits(operands)) return nullptr;
  ConvolutionPlan plan(operands, context);
  if (plan.sums_images()) return std::make_unique<WinogradFilterKernel>(std::move(plan));
  return std::make_unique<WinogradKernel>(std::move(plan));
}

}  // namespace mtf
