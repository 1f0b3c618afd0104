// Convolutions as matrix products (convolution_plan.h) whose operand A is never built: its rows are read where windows
// are.
//
// Along a dimension with windows, entry = w * stride + k * dilation + origin. To compute windows or the filter, A is read at
// w * stride + k * dilation. Entries fall into `stride` classes; those of one class meet every (stride / g)-th entry of the
// filter, g the common divisor of stride and dilation, and are one product: A is read at e - k' * (dilation / g).
//
// Where windows reach into padding, the part of A that a task needs is first copied with zeros around it. An entry of the
// result is the sum of the same products in the same order wherever the tensors are cut along images, windows, entries or
// columns (gemm.h), so that layouts change no bit; a sum over images or windows of the filter is made in chunks.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>

#include "engine/backend/cpu/contractions/convolution_plan.h"
#include "engine/backend/cpu/contractions/depthwise_convolution.h"
#include "engine/backend/cpu/contractions/gemm.h"
#include "engine/backend/cpu/contractions/winograd.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/element.h"
#include "engine/backend/scratch_parts.h"
#include "engine/backend/strided.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// Rows of one product that are wanted, so that packing B is a small part of it, and rows below which a product is not cut
/// to make more tasks.
constexpr int64_t kRowsWanted = 1024, kFewestRows = 256, kFewestRowsOfFilter = 128;
/// Rows of one place of the outer dimensions of a filter, below which a product has those of all places.
constexpr int64_t kFewestRowsOfPlace = 16;
constexpr int64_t kFewestColumns = 128, kFewestRowsSwapped = 64;
/// Entries of the sums of a filter that are wanted in one product.
constexpr int64_t kDepthWanted = 512;
constexpr int64_t kTasksWanted = 8;

/// Rows and summed entries of a product along one dimension with windows, as indices of A (relative to what was copied), B
/// and C: row r and summed entry t are at a_begin + r * a_row + t * a_step, b_begin + t * b_step, c_begin + r * c_row.
struct Line {
  int64_t rows = 0, steps = 0;
  int64_t a_begin = 0, a_row = 0, a_step = 0;
  int64_t b_begin = 0, b_step = 1;
  int64_t c_begin = 0, c_row = 1;
};

/// The part of A along a dimension that a task reads: `size` indices from `begin`, of which those from `first` to `end` - 1
/// exist.
struct Reach {
  int64_t begin = 0, size = 0, first = 0, end = 0;

  bool needs_padding() const { return begin < first || begin + size > end; }
};

/// The lines of products along a dimension: one, or one for each class of entries, or each place of the filter.
int64_t lines_along(const ConvolutionPlan& plan, const WindowAxis& axis) {
  if (plan.result == Convolution::kEntries) return axis.window().stride;
  return axis.place_by_place ? axis.window().size : 1;
}

Reach reach_of(const ConvolutionPlan& plan, const WindowAxis& axis, const Window::Local& local,
               int64_t line) {
  const Window& window = axis.window();
  const int64_t reach = (window.size - 1) * window.dilation;
  if (plan.result == Convolution::kEntries) {
    const int64_t begin = -floor_divide(reach + local.origin, window.stride);
    const int64_t last = floor_divide(axis.placed.entries - 1 - local.origin, window.stride);
    return {begin, std::max<int64_t>(0, last - begin + 1), local.first_window, local.end_window};
  }
  const int64_t apart = (axis.placed.windows - 1) * window.stride + 1;
  if (axis.place_by_place)
    return {local.origin + line * window.dilation, apart, local.first_entry, local.end_entry};
  return {local.origin, apart + reach, local.first_entry, local.end_entry};
}

/// The size of the reach in any block and of any line.
int64_t most_reach(const ConvolutionPlan& plan, const WindowAxis& axis) {
  const Window& window = axis.window();
  const int64_t reach = (window.size - 1) * window.dilation;
  if (plan.result == Convolution::kEntries) return (axis.placed.entries + reach) / window.stride + 1;
  return (axis.placed.windows - 1) * window.stride + 1 + (axis.place_by_place ? 0 : reach);
}

Line line_of(const ConvolutionPlan& plan, const WindowAxis& axis, const Window::Local& local,
             const Reach& reach, int64_t line) {
  const Window& window = axis.window();
  if (plan.result == Convolution::kWindows)
    return {
        .rows = axis.placed.windows, .steps = window.size, .a_row = window.stride, .a_step = window.dilation};
  if (plan.result == Convolution::kFilter) {
    if (axis.place_by_place)
      return {.rows = 1, .steps = axis.placed.windows, .a_step = window.stride, .c_begin = line};
    return {
        .rows = window.size, .steps = axis.placed.windows, .a_row = window.dilation, .a_step = window.stride};
  }
  // The entries `line`, + stride, ...; k is the first place of the filter that meets them.
  Line entries{
      .rows = line < axis.placed.entries ? ceil_divide(axis.placed.entries - line, window.stride) : 0,
      .a_row = 1,
      .c_begin = line,
      .c_row = window.stride};
  const int64_t divisor = std::gcd(window.stride, window.dilation), every = window.stride / divisor;
  for (int64_t k = 0; k < std::min(every, window.size); ++k) {
    const int64_t offset = line - local.origin - k * window.dilation;
    if (floor_modulo(offset, window.stride) != 0) continue;
    entries.steps = ceil_divide(window.size - k, every);
    entries.a_begin = floor_divide(offset, window.stride) - reach.begin;
    entries.a_step = -(window.dilation / divisor);
    entries.b_begin = k;
    entries.b_step = every;
  }
  return entries;
}

/// Contracts elements of type T to a result of type Out, which is T or float32.
template <class T, class Out>
class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(ConvolutionPlan plan, bool in_bfloat16)
      : plan_(std::move(plan)), in_bfloat16_(in_bfloat16) {
    if (!plan_.images.empty()) {
      image_ = plan_.images.back();
      plan_.images.pop_back();
    }
    channels_ = size_of(plan_.channels);
    for (size_t w = 0; w < plan_.windows.size(); ++w) {
      WindowAxis& axis = plan_.windows[w];
      // The last dimension's places and the channels are neighbours in A, so that one product has both. Where they are
      // few, it has all places.
      const bool many = channels_ * plan_.windows.back().window().size >= kFewestRowsOfPlace;
      axis.place_by_place = plan_.sums_images() && many && w + 1 < plan_.windows.size();
      lines_ *= lines_along(plan_, axis);
      blocks_ *= axis.placed.blocks;
      most_reach_ *= most_reach(plan_, axis);
      grid_ *= plan_.result == Convolution::kEntries ? axis.placed.entries : axis.placed.windows;
      if (!axis.place_by_place) places_ *= axis.window().size;
    }
    if (plan_.sums_images()) {
      cut_filter();
    } else {
      cut_images();
    }
  }

  int64_t tasks() const override { return size_of(plan_.loops) * parts_ * column_parts_; }

  size_t scratch_bytes() const override { return Scratch(*this, nullptr).bytes; }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    int64_t flops = 0;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column_part = task % column_parts_, part = task / column_parts_ % parts_;
      const Offsets<3> loop = offsets_of(plan_.loops, task / column_parts_ / parts_);
      Operand operand{call, loop, column_part * columns_at_once_};
      operand.columns = std::min(columns_at_once_, plan_.columns.size - operand.column);
      flops += plan_.sums_images() ? run_filter(operand, part) : run_images(operand, part);
    }
    return flops;
  }

 private:
  using C = Computed<T>;

  /// What a task works on.
  struct Operand {
    const KernelCall& call;
    Offsets<3> at;
    int64_t column = 0, columns = 0;
    int64_t channel = 0, channels = 0;  ///< channels of A
    int64_t images = 0;
  };

  /// The parts of the scratch memory.
  struct Scratch {
    Scratch(const ConvolutionKernel& kernel, std::byte* memory) {
      const int64_t rows = kernel.most_rows(), columns = kernel.columns_at_once_;
      ScratchParts parts(memory);
      a = parts.take<T>(kernel.images_at_once_ * kernel.most_reach_ * kernel.channels_at_once_);
      a_rows = parts.take<int64_t>(rows);
      c_rows = parts.take<int64_t>(rows);
      c = parts.take<C>(rows * columns);
      const int64_t depth = kernel.most_depth();
      product = parts.take<C>(kernel.swapped_ ? product_scratch(columns, rows, depth)
                                              : product_scratch(rows, columns, depth));
      bytes = parts.bytes();
    }
    T* a;
    int64_t *a_rows, *c_rows;
    C *c, *product;
    size_t bytes;
  };

  /// A as a product reads it: in place, or copied with padding.
  struct View {
    const T* data = nullptr;
    int64_t image = 0;  ///< strides
    std::array<int64_t, kMostWindows> windows{};
    std::array<Reach, kMostWindows> reaches{};
    std::array<Window::Local, kMostWindows> locals{};
    bool copied = false;
  };

  int64_t most_rows() const {
    return plan_.sums_images() ? places_ * channels_at_once_ : images_at_once_ * grid_;
  }
  int64_t most_depth() const { return plan_.sums_images() ? images_at_once_ * grid_ : places_ * channels_; }

  /// Cuts the images, then the columns, so that products have enough rows and there are some tasks.
  void cut_images() {
    channels_at_once_ = channels_;
    const int64_t others = size_of(plan_.loops) * size_of(plan_.images) * blocks_;
    const auto images_for = [&](int64_t rows) {
      return std::clamp<int64_t>(ceil_divide(rows, grid_), 1, image_.size);
    };
    const auto parts_for = [&](int64_t images) { return others * ceil_divide(image_.size, images); };
    images_at_once_ = images_for(kRowsWanted);
    column_parts_ = std::clamp<int64_t>(kTasksWanted / parts_for(images_at_once_), 1,
                                        std::max<int64_t>(1, plan_.columns.size / kFewestColumns));
    while (parts_for(images_at_once_) * column_parts_ < kTasksWanted &&
           images_at_once_ * grid_ >= 2 * kFewestRows && images_at_once_ > 1) {
      images_at_once_ = (images_at_once_ + 1) / 2;
    }
    cut_columns();
    chunks_ = ceil_divide(image_.size, images_at_once_);
    parts_ = size_of(plan_.images) * blocks_ * chunks_;
  }

  /// Cuts inputs and outputs of the filter. Chunks of images, over which the sums go, depend on the grid alone.
  void cut_filter() {
    images_at_once_ = std::clamp<int64_t>(ceil_divide(kDepthWanted, grid_), 1, image_.size);
    chunks_ = ceil_divide(image_.size, images_at_once_);
    channels_at_once_ = channels_;
    swapped_ = has_contiguous_rows() && plan_.columns.size <= places_ * channels_;
    column_parts_ = swapped_ ? std::clamp<int64_t>(plan_.columns.size / kFewestRowsSwapped, 1,
                                                   ceil_divide(kTasksWanted, lines_))
                             : std::clamp<int64_t>(plan_.columns.size / kFewestColumns, 1, kTasksWanted);
    if (!swapped_ && plan_.channels.size() == 1) {
      const int64_t wanted =
          std::min(kTasksWanted / (column_parts_ * lines_), places_ * channels_ / kFewestRowsOfFilter);
      channels_at_once_ = ceil_divide(channels_, std::clamp<int64_t>(wanted, 1, channels_));
    }
    cut_columns();
    channel_parts_ = ceil_divide(channels_, channels_at_once_);
    parts_ = lines_ * channel_parts_;
  }

  /// Whether the rows of a filter's product, places of the last dimension by channels, are neighbours in A. They are
  /// then better columns than rows: packing columns is the cheaper of the two.
  bool has_contiguous_rows() const {
    if (!contiguous_channels()) return false;
    if (places_ == 1) return true;
    const WindowAxis& last = plan_.windows.back();
    return places_ == last.window().size && last.window().dilation == 1 && last.strides[kA] == channels_;
  }

  void cut_columns() {
    constexpr int64_t kUnit = 64;  // two tiles
    columns_at_once_ = std::min(plan_.columns.size,
                                ceil_divide(ceil_divide(plan_.columns.size, column_parts_), kUnit) * kUnit);
    column_parts_ = ceil_divide(plan_.columns.size, columns_at_once_);
  }

  int64_t run_images(Operand operand, int64_t part) const {
    const int64_t chunk = part % chunks_, outer = part / chunks_;
    enter_blocks(operand, outer % blocks_);
    const Offsets<3> images = offsets_of(plan_.images, outer / blocks_);
    const int64_t first = chunk * images_at_once_;
    for (size_t i = 0; i < 3; ++i) operand.at[i] += images[i] + first * image_.strides[i];
    operand.images = std::min(images_at_once_, image_.size - first);
    operand.channels = channels_;
    const Scratch scratch(*this, operand.call.scratch);
    const View view = view_of(operand, outer % blocks_, 0, scratch);
    int64_t flops = 0;
    for (int64_t line = 0; line < lines_; ++line) flops += multiply_line(operand, view, line, scratch);
    return flops;
  }

  int64_t run_filter(Operand operand, int64_t part) const {
    const int64_t line = part / channel_parts_;
    operand.channel = part % channel_parts_ * channels_at_once_;
    operand.channels = std::min(channels_at_once_, channels_ - operand.channel);
    const Scratch scratch(*this, operand.call.scratch);
    const Offsets<3> task = operand.at;
    int64_t flops = 0, rows = 0;
    bool adds = false;
    for (int64_t block = 0; block < blocks_; ++block) {
      for (int64_t outer = 0; outer < size_of(plan_.images); ++outer) {
        const Offsets<3> images = offsets_of(plan_.images, outer);
        for (int64_t chunk = 0; chunk < chunks_; ++chunk, adds = true) {
          const int64_t first = chunk * images_at_once_;
          operand.at = task;
          enter_blocks(operand, block);
          for (size_t i = 0; i < 3; ++i) operand.at[i] += images[i] + first * image_.strides[i];
          operand.images = std::min(images_at_once_, image_.size - first);
          const View view = view_of(operand, block, line, scratch);
          const std::array<Line, kMostWindows> lines = lines_of(view, line);
          rows = fill_rows(operand, view, lines, scratch);
          flops += multiply_into_scratch(operand, view, lines, rows, adds, scratch);
        }
      }
    }
    operand.at = task;
    store(from_line(operand, lines_of({}, line)), rows, scratch);
    return flops;
  }

  /// Moves the operands to a block.
  void enter_blocks(Operand& operand, int64_t block) const {
    for (size_t w = plan_.windows.size(); w-- > 0;) {
      const WindowAxis& axis = plan_.windows[w];
      for (size_t i = 0; i < 3; ++i) operand.at[i] += block % axis.placed.blocks * axis.block_strides[i];
      block /= axis.placed.blocks;
    }
  }

  View view_of(const Operand& operand, int64_t block, int64_t line, const Scratch& scratch) const {
    View view;
    const size_t n = plan_.windows.size();
    for (size_t w = n; w-- > 0;) {
      const WindowAxis& axis = plan_.windows[w];
      view.locals[w] = axis.placed.local(operand.call, block % axis.placed.blocks);
      const int64_t lines = lines_along(plan_, axis);
      view.reaches[w] = reach_of(plan_, axis, view.locals[w], line % lines);
      line /= lines;
      view.copied |= view.reaches[w].needs_padding();
      block /= axis.placed.blocks;
    }
    const T* a = input_a(operand.call) + operand.at[kA];
    if (!view.copied) {
      for (size_t w = 0; w < n; ++w) {
        view.windows[w] = plan_.windows[w].strides[kA];
        a += view.reaches[w].begin * view.windows[w];
      }
      view.image = image_.strides[kA];
      view.data = a + (plan_.channels.empty() ? 0 : operand.channel * plan_.channels.back().strides[kA]);
      return view;
    }
    int64_t stride = operand.channels;
    for (size_t w = n; w-- > 0; stride *= view.reaches[w].size) view.windows[w] = stride;
    view.image = stride;
    view.data = scratch.a;
    for (int64_t i = 0; i < operand.images; ++i)
      copy(operand, view, 0, a + i * image_.strides[kA], scratch.a + i * view.image);
    return view;
  }

  /// Copies what a task reads of A from window dimension `w` on, with zeros where there is padding.
  void copy(const Operand& operand, const View& view, size_t w, const T* from, T* to) const {
    if (w == plan_.windows.size()) return copy_channels(operand, from, to);
    const Reach& reach = view.reaches[w];
    const int64_t from_stride = plan_.windows[w].strides[kA], stride = view.windows[w];
    const int64_t before = std::clamp<int64_t>(reach.first - reach.begin, 0, reach.size);
    const int64_t end = std::clamp<int64_t>(reach.end - reach.begin, before, reach.size);
    std::fill(to, to + before * stride, T(0));
    std::fill(to + end * stride, to + reach.size * stride, T(0));
    const bool whole = w + 1 == plan_.windows.size() && contiguous_channels() &&
                       operand.channels == channels_ && channels_ == from_stride;
    from += reach.begin * from_stride;
    if (whole) {
      std::memcpy(to + before * stride, from + before * stride,
                  static_cast<size_t>((end - before) * stride) * sizeof(T));
      return;
    }
    for (int64_t i = before; i < end; ++i)
      copy(operand, view, w + 1, from + i * from_stride, to + i * stride);
  }

  bool contiguous_channels() const {
    return plan_.channels.empty() || (plan_.channels.size() == 1 && plan_.channels[0].strides[kA] == 1);
  }

  void copy_channels(const Operand& operand, const T* from, T* to) const {
    if (contiguous_channels()) {
      std::memcpy(to, from + operand.channel, static_cast<size_t>(operand.channels) * sizeof(T));
      return;
    }
    for_each_offset(plan_.channels, operand.channel, operand.channel + operand.channels,
                    [&](const Offsets<3>& at) { *to++ = from[at[kA]]; });
  }

  std::array<Line, kMostWindows> lines_of(const View& view, int64_t line) const {
    std::array<Line, kMostWindows> lines;
    for (size_t w = plan_.windows.size(); w-- > 0;) {
      const int64_t along = lines_along(plan_, plan_.windows[w]);
      lines[w] = line_of(plan_, plan_.windows[w], view.locals[w], view.reaches[w], line % along);
      line /= along;
    }
    return lines;
  }

  /// Stores where each row of the product begins in A and in C; returns the number of rows.
  int64_t fill_rows(const Operand& operand, const View& view, const std::array<Line, kMostWindows>& lines,
                    const Scratch& scratch) const {
    // Axes of the rows, with strides in A and C.
    StridedAxes<2> axes;
    if (!plan_.sums_images()) axes.push_back({operand.images, {view.image, image_.strides[kC]}});
    for (size_t w = 0; w < plan_.windows.size(); ++w)
      axes.push_back(
          {lines[w].rows, {lines[w].a_row * view.windows[w], lines[w].c_row * plan_.windows[w].strides[kC]}});
    if (plan_.sums_images()) {
      int64_t dense = 1;
      const size_t first = axes.size();
      for (size_t i = plan_.channels.size(); i-- > 0;) {
        const StridedAxis<3>& axis = plan_.channels[i];
        const int64_t size = plan_.channels.size() == 1 ? operand.channels : axis.size;
        axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(first),
                    {size, {view.copied ? dense : axis.strides[kA], axis.strides[kC]}});
        dense *= size;
      }
    }
    int64_t rows = 0;
    for_each_offset(axes, 0, size_of(axes), [&](const Offsets<2>& at) {
      scratch.a_rows[rows] = at[0];
      scratch.c_rows[rows++] = at[1];
    });
    return rows;
  }

  /// The summed axes of a product, joined where both operands allow it.
  struct Sums {
    std::array<SummedAxis, kMaximalRank> axes;
    size_t count = 0;
    int64_t depth = 1;

    void add(const SummedAxis& axis) {
      depth *= axis.size;
      if (axis.size == 1) return;
      if (count > 0 && axes[count - 1].a_stride == axis.a_stride * axis.size &&
          axes[count - 1].b_stride == axis.b_stride * axis.size) {
        axes[count - 1] = {axes[count - 1].size * axis.size, axis.a_stride, axis.b_stride};
      } else {
        axes[count++] = axis;
      }
    }
  };
  Sums sums_of(const Operand& operand, const View& view, const std::array<Line, kMostWindows>& lines) const {
    Sums sums;
    if (plan_.sums_images()) sums.add({operand.images, view.image, image_.strides[kB]});
    for (size_t w = 0; w < plan_.windows.size(); ++w)
      sums.add({lines[w].steps, lines[w].a_step * view.windows[w],
                lines[w].b_step * plan_.windows[w].strides[kB]});
    if (plan_.sums_images()) return sums;
    int64_t dense = channels_;
    for (const StridedAxis<3>& axis : plan_.channels) {
      dense /= axis.size;
      sums.add({axis.size, view.copied ? dense : axis.strides[kA], axis.strides[kB]});
    }
    return sums;
  }

  Product<T> product_of(const Operand& operand, const View& view, const std::array<Line, kMostWindows>& lines,
                        const Sums& sums, int64_t rows, const Scratch& scratch) const {
    Product<T> product{
        .rows = rows,
        .columns = operand.columns,
        .summed = {sums.axes.data(), sums.count},
        .a = view.data,
        .b = input_b(operand.call) + operand.at[kB] + operand.column * plan_.columns.strides[kB],
        .b_column_stride = plan_.columns.strides[kB],
        .c = scratch.c,
        .c_row_stride = operand.columns,
        .in_bfloat16 = in_bfloat16_};
    for (size_t w = 0; w < plan_.windows.size(); ++w) {
      product.a += lines[w].a_begin * view.windows[w];
      product.b += lines[w].b_begin * plan_.windows[w].strides[kB];
    }
    if (const auto stride = stride_of(scratch.a_rows, rows)) {
      product.a_row_stride = *stride;
    } else {
      product.a_rows = scratch.a_rows;
    }
    return product;
  }

  /// The distance of the rows, if it is the same for all.
  static std::optional<int64_t> stride_of(const int64_t* rows, int64_t count) {
    const int64_t stride = count > 1 ? rows[1] - rows[0] : 0;
    for (int64_t i = 1; i < count; ++i) {
      if (rows[i] - rows[i - 1] != stride) return std::nullopt;
    }
    return stride;
  }

  int64_t multiply_into_scratch(const Operand& operand, const View& view,
                                const std::array<Line, kMostWindows>& lines, int64_t rows, bool adds,
                                const Scratch& scratch) const {
    Sums sums = sums_of(operand, view, lines);
    Product<T> product = product_of(operand, view, lines, sums, rows, scratch);
    product.adds = adds;
    if (swapped_) {
      std::swap(product.a, product.b);
      std::swap(product.rows, product.columns);
      std::swap(product.a_row_stride, product.b_column_stride);
      product.c_row_stride = rows;
      for (size_t i = 0; i < sums.count; ++i) std::swap(sums.axes[i].a_stride, sums.axes[i].b_stride);
    }
    multiply(product, scratch.product);
    return 2 * rows * operand.columns * sums.depth;
  }

  /// Computes the entries of one line, or all windows.
  int64_t multiply_line(const Operand& operand, const View& view, int64_t line,
                        const Scratch& scratch) const {
    const std::array<Line, kMostWindows> lines = lines_of(view, line);
    const int64_t rows = fill_rows(operand, view, lines, scratch);
    if (rows == 0) return 0;
    const Operand of_line = from_line(operand, lines);
    const Sums sums = sums_of(operand, view, lines);
    if (sums.depth == 0) {  // no window reads these entries
      std::fill(scratch.c, scratch.c + rows * operand.columns, C(0));
      store(of_line, rows, scratch);
      return 0;
    }
    Product<T> product = product_of(operand, view, lines, sums, rows, scratch);
    const auto c_stride = stride_of(scratch.c_rows, rows);
    const bool in_place =
        std::is_same_v<Out, C> && c_stride && (plan_.columns.size == 1 || plan_.columns.strides[kC] == 1);
    if constexpr (std::is_same_v<Out, C>) {
      if (in_place) {
        product.c = of_line.call.template output<Out>(0) + of_line.at[kC] + operand.column;
        product.c_row_stride = *c_stride;
      }
    }
    multiply(product, scratch.product);
    if (!in_place) store(of_line, rows, scratch);
    return 2 * rows * operand.columns * sums.depth;
  }

  /// The operand where the result of these lines begins.
  Operand from_line(Operand operand, const std::array<Line, kMostWindows>& lines) const {
    for (size_t w = 0; w < plan_.windows.size(); ++w)
      operand.at[kC] += lines[w].c_begin * plan_.windows[w].strides[kC];
    return operand;
  }

  /// Copies the product from scratch memory to the result.
  void store(const Operand& operand, int64_t rows, const Scratch& scratch) const {
    const int64_t stride = plan_.columns.strides[kC];
    int64_t channel = 0;
    if (plan_.sums_images() && !plan_.channels.empty())
      channel = operand.channel * plan_.channels.back().strides[kC];
    Out* out = operand.call.template output<Out>(0) + operand.at[kC] + channel + operand.column * stride;
    const int64_t down = swapped_ ? 1 : operand.columns, across = swapped_ ? rows : 1;
    for (int64_t i = 0; i < rows; ++i) {
      const C* from = scratch.c + i * down;
      Out* to = out + scratch.c_rows[i];
      for (int64_t j = 0; j < operand.columns; ++j) to[j * stride] = narrow<Out>(from[j * across]);
    }
  }

  const T* input_a(const KernelCall& call) const {
    return call.input<T>(plan_.result == Convolution::kEntries ? 1 : 0);
  }
  const T* input_b(const KernelCall& call) const {
    return call.input<T>(plan_.result == Convolution::kEntries ? 0 : 1);
  }

  ConvolutionPlan plan_;
  bool in_bfloat16_;
  StridedAxis<3> image_;  ///< the images that one product may have several of
  int64_t channels_ = 1, lines_ = 1, blocks_ = 1, most_reach_ = 1, grid_ = 1, places_ = 1;
  int64_t images_at_once_ = 1, channels_at_once_ = 1, columns_at_once_ = 1;
  bool swapped_ = false;  ///< A and B of a filter's product change places
  int64_t chunks_ = 1, channel_parts_ = 1, parts_ = 1, column_parts_ = 1;
};

template <class T>
std::unique_ptr<Kernel> convolution_kernel(const KernelContext& context) {
  const ConvolutionOperands operands(context);
  const bool in_bfloat16 = operands.operation.precision == MatmulPrecision::kBFloat16;
  if (auto kernel = winograd_kernel(operands, context)) return kernel;
  if (auto kernel = depthwise_convolution_kernel(operands, context)) return kernel;
  ConvolutionPlan plan(operands, context);
  if (context.outputs[0].dtype == DTypeOf<T>::value)
    return std::make_unique<ConvolutionKernel<T, T>>(std::move(plan), in_bfloat16);
  return std::make_unique<ConvolutionKernel<T, Computed<T>>>(std::move(plan), in_bfloat16);
}

template <class T>
struct Registrations {
  KernelRegistration windows{"convolution", {DTypeOf<T>::value}, convolution_kernel<T>};
  KernelRegistration entries{"transposed_convolution", {DTypeOf<T>::value}, convolution_kernel<T>};
  KernelRegistration filter{"convolution_filter_gradient", {DTypeOf<T>::value}, convolution_kernel<T>};
};
const Registrations<float> of_float32;
const Registrations<BFloat16> of_bfloat16;
const Registrations<double> of_float64;

}  // namespace
}  // namespace mtf
