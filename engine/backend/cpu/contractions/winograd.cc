#include "engine/backend/cpu/contractions/winograd.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/cpu/contractions/winograd_tiles.h"
#include "engine/backend/cpu/contractions/winograd_transforms.h"
#include "engine/backend/scratch_parts.h"
#include "engine/base/dispatch.h"
#include "engine/base/instruction_set.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace winograd {
namespace {

constexpr int64_t kTilesAtOnce = 128;  ///< tiles of one matrix product
/// Columns (and channels, where the filter is computed) of a task.
constexpr int64_t kColumnsAtOnce = 128;
constexpr int64_t kTasksWanted = 8, kFewestChannelsOfTask = 16;

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
      filter = parts.take<float>(kPlanes * filter_plane);
      tiles = parts.take<float>(kPlanes * tiles_plane);
      result = parts.take<float>(kPlanes * result_plane);
      rows = parts.take<float>(kernel.tiles_.rows_scratch(channels));
      dropped = parts.take<float>(columns);
      turned = parts.take<float>(kPlanes * turned_plane);
      product = parts.take<float>(product_scratch(kernel.most_tiles(), columns, channels));
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
    // Each task transforms the windows of its columns: at least two tasks, but no more for that.
    const int64_t half = std::clamp(ceil_divide(channels_, 2), kFewestChannelsOfTask, kColumnsAtOnce / 2);
    channels_at_once_ = std::min(channels_, column_parts_ > 1 ? kColumnsAtOnce : half);
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
      entries = parts.take<float>(kPlanes * entries_plane);
      windows = parts.take<float>(kPlanes * windows_plane);
      sums = parts.take<float>(kPlanes * sums_plane);
      rows = parts.take<float>(kernel.tiles_.rows_scratch(channels));
      zeros = parts.take<float>(row);
      product = parts.take<float>(product_scratch(channels, row, tiles));
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

}  // namespace
}  // namespace winograd

std::unique_ptr<Kernel> winograd_kernel(const ConvolutionOperands& operands, const KernelContext& context) {
  if (!operands.operation.suits_winograd()) return nullptr;
  ConvolutionPlan plan(operands, context);
  if (plan.sums_images()) return std::make_unique<winograd::WinogradFilterKernel>(std::move(plan));
  return std::make_unique<winograd::WinogradKernel>(std::move(plan));
}

}  // namespace mtf
