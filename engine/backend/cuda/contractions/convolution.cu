// Convolutions: those that are contractions as they are, depthwise ones, and all others as products with a matrix of
// patches (patches.h), which is made in scratch, part by part.
//
//                        patches of   grid               depth              other matrix   result
//   windows              entries      images x windows   filter x inputs    filter         windows
//   entries              windows      images x entries   filter x outputs   filter         entries
//   filter               entries      images x windows   filter x inputs    windows        filter
//
// Entries fall into `stride` classes along each dimension: entries of a class meet the same places of the filter, so that
// they are one product without zeros. A filter is summed over the parts, in their order.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "engine/backend/cuda/contractions/convolution_operands.h"
#include "engine/backend/cuda/contractions/depthwise_convolution.h"
#include "engine/backend/cuda/contractions/patches.h"
#include "engine/backend/cuda/contractions/product.h"
#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/words.h"
#include "engine/backend/element.h"
#include "engine/backend/visit_type.h"
#include "engine/base/integer_division.h"

namespace mtf::cuda {
namespace {

/// Bytes of patches that are wanted in scratch: enough for a product that fills a device, and few enough to stay in the
/// cache of a large one until it reads them.
constexpr int64_t kPatchBytes = 32 << 20;

/// Whether windows and entries correspond one to one: no window overlaps another, and none has padding.
bool is_tiled(const ConvolutionWindow& w) {
  const Window& window = w.window();
  return window.size == window.stride && (window.dilation == 1 || window.size == 1) && window.before == 0 &&
         window.entries.margin == 0 && window.windows.margin == 0 &&
         w.placed.entries == w.placed.windows * window.stride &&
         window.entries.size == window.windows.size * window.stride &&
         window.entries.per_block == window.windows.per_block * window.stride;
}

/// The convolution as a contraction of its operands, if all windows are tiles.
std::optional<Contraction> as_contraction(const ConvolutionOperands& operands) {
  if (!std::ranges::all_of(operands.windows, is_tiled)) return {};
  Contraction contraction;
  const auto add = [&](int64_t size, const Offsets<3>& by_role) {
    if (size == 1) return;
    ContractionAxes::value_type axis{size, {}};
    for (size_t role = 0; role < 3; ++role) {
      const bool is_result = role == static_cast<size_t>(operands.result);
      const size_t place = is_result
                               ? size_t{kOut}
                               : static_cast<size_t>(operands.input_of(static_cast<Convolution::Role>(role)));
      axis.strides[place] = by_role[role];
    }
    const bool in_a = axis.strides[kA] != 0, in_b = axis.strides[kB] != 0, in_out = axis.strides[kOut] != 0;
    (!in_out ? contraction.summed
     : !in_b ? contraction.rows
     : !in_a ? contraction.columns
             : contraction.batch)
        .push_back(axis);
  };
  for (const StridedAxes<3>* axes :
       {&operands.groups, &operands.images, &operands.inputs, &operands.outputs}) {
    for (const auto& [size, strides] : *axes) add(size, strides);
  }
  for (const ConvolutionWindow& w : operands.windows) {
    const int64_t of_entries = w.strides[Convolution::kEntries];
    add(w.placed.windows, {of_entries * w.window().stride, 0, w.strides[Convolution::kWindows]});
    add(w.window().size, {of_entries, w.strides[Convolution::kFilter], 0});
    add(w.placed.blocks, w.blocks);
  }
  return contraction;
}

/// Positions and taps of a class along one dimension, in one block.
struct ClassLine {
  PatchWindow patch;  ///< without the stride
  /// Positions in the operand that has the grid besides the patches.
  int64_t result_begin = 0, result_step = 1;
  int64_t filter_begin = 0, filter_step = 1;  ///< taps in the filter
};

ClassLine line_of(const ConvolutionWindow& w, Convolution::Role result, const Window::Local& local,
                  int64_t phase) {
  const Window& window = w.window();
  if (result != Convolution::kEntries) {
    return {.patch = {.positions = w.placed.windows,
                      .taps = window.size,
                      .position_step = window.stride,
                      .tap_step = window.dilation,
                      .begin = local.origin,
                      .first = local.first_entry,
                      .end = local.end_entry}};
  }
  // Entry e and place k of the filter meet in window (e - origin - k * dilation) / stride. The class are the entries for
  // which e - origin is `phase`, modulo the stride.
  const int64_t divisor = std::gcd(window.stride, window.dilation), every = window.stride / divisor;
  const int64_t first = floor_modulo(local.origin + phase, window.stride);
  ClassLine line{
      .patch = {.positions =
                    first < w.placed.entries ? ceil_divide(w.placed.entries - first, window.stride) : 0,
                .taps = 0,
                .position_step = 1,
                .tap_step = -(window.dilation / divisor),
                .first = local.first_window,
                .end = local.end_window},
      .result_begin = first,
      .result_step = window.stride,
      .filter_step = every};
  for (int64_t k = 0; k < std::min(every, window.size); ++k) {
    const int64_t offset = first - local.origin - k * window.dilation;
    if (floor_modulo(offset, window.stride) != 0) continue;
    line.patch.taps = ceil_divide(window.size - k, every);
    line.patch.begin = floor_divide(offset, window.stride);
    line.filter_begin = k;
  }
  return line;
}

/// For entries that no window reads.
struct SetToZero {
  std::byte* data;
  int64_t words, word;

  MTF_DEVICE void operator()(const Block& block) const {
    with_word(word, [&]<class Word>(Word) {
      for (int64_t i = block.first(); i < words; i += block.stride())
        reinterpret_cast<Word*>(data)[i] = Word{};
    });
  }
};

/// Rounds the sums of a filter.
template <class C, class Out>
struct StoreSums {
  const C* sums;
  Out* y;
  int64_t size;

  MTF_DEVICE void operator()(const Block& block) const {
    for (int64_t i = block.first(); i < size; i += block.stride()) y[i] = narrow<Out>(sums[i]);
  }
};

/// Products with a matrix of patches: for each block, each class of entries and each part of the grid, copies the patches
/// and multiplies them with the filter or the windows.
class PatchConvolution final : public Kernel {
 public:
  PatchConvolution(ConvolutionOperands operands, const KernelContext& context, Device& device)
      : operands_(std::move(operands)),
        result_(operands_.result),
        source_(result_ == Convolution::kEntries ? Convolution::kWindows : Convolution::kEntries),
        grid_(result_ == Convolution::kEntries ? Convolution::kEntries : Convolution::kWindows),
        dtype_(context.inputs[0].dtype),
        output_(context.outputs[0].dtype),
        element_(static_cast<int64_t>(size_of(dtype_))),
        guarded_(context.guarded),
        device_(device) {
    const auto by_source = [&](const auto& a, const auto& b) {
      return a.strides[source_] > b.strides[source_];
    };
    channels_ = source_ == Convolution::kEntries ? operands_.inputs : operands_.outputs;
    columns_ = source_ == Convolution::kEntries ? operands_.outputs : operands_.inputs;
    for (StridedAxes<3>* axes : {&operands_.groups, &operands_.images, &channels_}) {
      std::ranges::stable_sort(*axes, by_source);
      *axes = joined(*axes);
    }
    std::ranges::stable_sort(operands_.windows, by_source);
    const auto fastest = [&](const auto& axis) { return axis.strides[source_] == 1; };
    grid_last_ =
        std::ranges::any_of(operands_.images, fastest) || std::ranges::any_of(operands_.windows, fastest);
    if (sums_filter() && (output_ != sum_dtype() || guarded_))
      sums_bytes_ = scratch_aligned(bytes_of(context.outputs[0].local, sum_dtype()));
    prepare_products();
    scratch_ = kScratchAlignment + sums_bytes_ + patch_bytes_ + product_bytes_;
  }

  int64_t tasks() const override { return 1; }
  size_t scratch_bytes() const override { return static_cast<size_t>(scratch_); }

  int64_t run(const KernelCall& call, int64_t, int64_t) const override {
    const Launcher launch(device_, call);
    std::byte* scratch = scratch_aligned(call.scratch);
    Progress progress{call, launch, scratch, sums_bytes_ > 0 ? scratch : call.outputs[0].data};
    if (skips_entries_) set_to_zero(launch, call);
    for_each_class(
        [&](const std::vector<int64_t>& blocks) {
          std::vector<Window::Local> locals;
          for (size_t w = 0; w < blocks.size(); ++w)
            locals.push_back(operands_.windows[w].placed.local(call, blocks[w]));
          return locals;
        },
        [](const ConvolutionWindow& w) { return w.placed.blocks; },
        [&](const std::vector<int64_t>& blocks, const std::vector<ClassLine>& lines) {
          const auto product = products_.find(key_of(lines));
          if (product != products_.end()) multiply(product->second, blocks, lines, progress);
        });
    if (sums_bytes_ > 0) store_sums(launch, call);
    return progress.flops;
  }

 private:
  /// An axis of the grid: of images, or the positions along a dimension with windows.
  struct GridAxis {
    int64_t size = 1;
    int64_t source_stride = 0;  ///< 0 for positions
    int64_t grid_stride = 0;    ///< in the other operand with the grid
    int window = -1;            ///< which one, for positions
  };

  /// The product for a part of the grid.
  struct Part {
    PatchCopy copy;
    std::unique_ptr<Kernel> product;
  };

  /// The products of a class. The grid is cut along axis `cut` into parts of `count` entries, for each entry of the axes
  /// before it.
  struct ClassProduct {
    std::vector<GridAxis> grid;
    size_t cut = 0;
    int64_t count = 1;
    Part part, last;
  };

  /// A call.
  struct Progress {
    const KernelCall& call;
    const Launcher& launch;
    std::byte* scratch;
    std::byte* result;
    int64_t parts = 0, flops = 0;
  };

  /// Positions, taps and the first tap along each dimension: what the products of a class depend on.
  using Key = std::vector<std::array<int64_t, 3>>;

  bool sums_filter() const { return result_ == Convolution::kFilter; }
  DType sum_dtype() const { return dtype_ == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }
  /// The type of what a product writes.
  DType product_dtype() const { return sums_filter() ? sum_dtype() : output_; }
  /// The operand with the grid besides the patches, and the one with the depth: the output or the second factor.
  int64_t grid_bytes() const {
    return static_cast<int64_t>(size_of(sums_filter() ? dtype_ : product_dtype()));
  }

  static Key key_of(const std::vector<ClassLine>& lines) {
    Key key;
    for (const ClassLine& line : lines)
      key.push_back({line.patch.positions, line.patch.taps, line.filter_begin});
    return key;
  }

  /// Calls visit(blocks, lines) for each block and class, the lines being in the order of the windows.
  template <class LocalsOf, class BlocksOf, class Visit>
  void for_each_class(const LocalsOf& locals_of, const BlocksOf& blocks_of, const Visit& visit) const {
    const size_t n = operands_.windows.size();
    const auto decode = [n](int64_t number, const std::vector<int64_t>& sizes) {
      std::vector<int64_t> index(n);
      for (size_t w = n; w-- > 0; number /= sizes[w]) index[w] = number % sizes[w];
      return index;
    };
    std::vector<int64_t> blocks, phases;
    for (const ConvolutionWindow& w : operands_.windows) {
      blocks.push_back(blocks_of(w));
      phases.push_back(result_ == Convolution::kEntries ? w.window().stride : 1);
    }
    const auto product = [](const std::vector<int64_t>& sizes) {
      return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    };
    for (int64_t b = 0; b < product(blocks); ++b) {
      const std::vector<int64_t> block = decode(b, blocks);
      const std::vector<Window::Local> locals = locals_of(block);
      for (int64_t p = 0; p < product(phases); ++p) {
        const std::vector<int64_t> phase = decode(p, phases);
        std::vector<ClassLine> lines;
        for (size_t w = 0; w < n; ++w)
          lines.push_back(line_of(operands_.windows[w], result_, locals[w], phase[w]));
        visit(block, lines);
      }
    }
  }

  /// Prepares the products of all blocks of the whole tensors: those of a call are known only when it runs.
  void prepare_products() {
    for_each_class(
        [&](const std::vector<int64_t>& blocks) {
          std::vector<Window::Local> locals;
          for (size_t w = 0; w < blocks.size(); ++w) {
            const PlacedWindow& placed = operands_.windows[w].placed;
            locals.push_back(placed.window.local(blocks[w], placed.entries, placed.windows));
          }
          return locals;
        },
        [](const ConvolutionWindow& w) { return w.all_blocks; },
        [&](const std::vector<int64_t>&, const std::vector<ClassLine>& lines) {
          const auto lacks = [&](int64_t PatchWindow::*what) {
            return std::ranges::any_of(lines, [&](const ClassLine& line) { return line.patch.*what == 0; });
          };
          if (lacks(&PatchWindow::positions)) return;
          if (lacks(&PatchWindow::taps)) {
            skips_entries_ = true;
            return;
          }
          const auto [product, is_new] = products_.try_emplace(key_of(lines));
          if (is_new) prepare(product->second, lines);
        });
  }

  void prepare(ClassProduct& product, const std::vector<ClassLine>& lines) {
    for (const auto& [size, strides] : operands_.images)
      product.grid.push_back({size, strides[source_], strides[grid_]});
    for (size_t w = 0; w < lines.size(); ++w) {
      product.grid.push_back({lines[w].patch.positions, 0,
                              operands_.windows[w].strides[grid_] * lines[w].result_step,
                              static_cast<int>(w)});
    }
    if (product.grid.empty()) product.grid.push_back({});
    const PatchShape whole = patch_shape(product, lines, 1);
    const int64_t most =
        std::max<int64_t>(1, kPatchBytes / (size_of(whole.groups) * whole.depth() * element_));
    product.cut = product.grid.size() - 1;
    int64_t inner = 1;
    for (; product.cut > 0 && inner * product.grid[product.cut].size <= most; --product.cut)
      inner *= product.grid[product.cut].size;
    const GridAxis& axis = product.grid[product.cut];
    product.count = balanced(axis, std::clamp<int64_t>(most / inner, 1, axis.size));
    product.part = prepare_part(product, lines, product.count);
    if (const int64_t rest = axis.size % product.count; rest > 0)
      product.last = prepare_part(product, lines, rest);
  }

  /// `count`, or less so that parts are about equal and begin at well aligned addresses.
  int64_t balanced(const GridAxis& axis, int64_t count) const {
    if (count == axis.size) return count;
    const int64_t equal = ceil_divide(axis.size, ceil_divide(axis.size, count));
    int64_t unit = 1;
    for (const int64_t bytes : {axis.grid_stride * grid_bytes(), axis.source_stride * element_}) {
      while (unit < 16 && bytes * unit % 16 != 0) unit *= 2;
    }
    const int64_t up = ceil_divide(equal, unit) * unit;
    return up <= count ? up : count >= unit ? count / unit * unit : count;
  }

  /// The patches of a part of the grid that has `count` entries along the axis that is cut.
  PatchShape patch_shape(const ClassProduct& product, const std::vector<ClassLine>& lines,
                         int64_t count) const {
    PatchShape shape{.element = element_, .grid_last = grid_last_, .alignment = source_alignment(product)};
    for (const auto& [size, strides] : operands_.groups) shape.groups.push_back({size, {strides[source_]}});
    for (const auto& [size, strides] : channels_) shape.channels.push_back({size, {strides[source_]}});
    for (size_t w = 0; w < lines.size(); ++w) {
      shape.windows.push_back(lines[w].patch);
      shape.windows[w].stride = operands_.windows[w].strides[source_];
    }
    for (size_t a = 0; a < product.grid.size(); ++a) {
      const GridAxis& axis = product.grid[a];
      const int64_t size = a < product.cut ? 1 : a == product.cut ? count : axis.size;
      if (axis.window < 0) {
        shape.images.push_back({size, {axis.source_stride}});
      } else {
        shape.windows[static_cast<size_t>(axis.window)].positions = size;
      }
    }
    return shape;
  }

  /// The largest power of two that divides all numbers of which `bits` is the union.
  static int64_t power_of_two_in(int64_t bits) { return bits & -bits; }

  /// What divides the addresses at which patches are read.
  int64_t source_alignment(const ClassProduct& product) const {
    int64_t bits = 16;
    for (size_t a = 0; a < product.grid.size() && a <= product.cut; ++a)
      bits |= product.grid[a].source_stride * element_ * (a == product.cut ? product.count : 1);
    for (const ConvolutionWindow& w : operands_.windows) bits |= w.blocks[source_] * element_;
    return power_of_two_in(bits);
  }

  /// What divides the addresses of the grid's operand of a product.
  int64_t grid_alignment(const ClassProduct& product, const std::vector<ClassLine>& lines) const {
    int64_t bits = 64;
    for (size_t a = 0; a < product.grid.size() && a <= product.cut; ++a)
      bits |= product.grid[a].grid_stride * grid_bytes() * (a == product.cut ? product.count : 1);
    for (size_t w = 0; w < lines.size(); ++w) {
      const ConvolutionWindow& window = operands_.windows[w];
      bits |= window.blocks[grid_] * grid_bytes();
      if (result_ == Convolution::kEntries && window.window().stride > 1)
        bits |= window.strides[grid_] * grid_bytes();
    }
    return power_of_two_in(bits);
  }

  /// What divides the addresses of the filter in a product.
  int64_t filter_alignment(const std::vector<ClassLine>& lines) const {
    int64_t bits = 64;
    if (result_ == Convolution::kEntries) {
      for (size_t w = 0; w < lines.size(); ++w)
        bits |= lines[w].filter_begin * operands_.windows[w].strides[Convolution::kFilter] * element_;
    }
    return power_of_two_in(bits);
  }

  Part prepare_part(const ClassProduct& product, const std::vector<ClassLine>& lines, int64_t count) {
    const PatchShape shape = patch_shape(product, lines, count);
    Part part{make_patch_copy(shape),
              make_product(contraction_of_part(product, lines, shape, count), sums_filter(), device_)};
    patch_bytes_ = std::max(patch_bytes_, scratch_aligned(shape.bytes()));
    product_bytes_ = std::max(product_bytes_, static_cast<int64_t>(part.product->scratch_bytes()));
    return part;
  }

  /// The product of the patches, as operand a.
  Contraction contraction_of_part(const ClassProduct& product, const std::vector<ClassLine>& lines,
                                  const PatchShape& shape, int64_t count) const {
    Contraction contraction;
    contraction.input = dtype_;
    contraction.output = product_dtype();
    contraction.precision = operands_.precision;
    contraction.output_in_scratch = guarded_ && !sums_filter();
    // The second factor and the output, by role.
    const size_t of_grid = sums_filter() ? size_t{kB} : size_t{kOut},
                 of_filter = sums_filter() ? size_t{kOut} : size_t{kB};
    contraction.alignment[of_grid] = grid_alignment(product, lines);
    contraction.alignment[of_filter] = filter_alignment(lines);
    const auto add = [](ContractionAxes& axes, int64_t size, int64_t in_patches, size_t operand,
                        int64_t stride) {
      if (size == 1) return;
      ContractionAxes::value_type axis{size, {in_patches}};
      axis.strides[operand] = stride;
      axes.push_back(axis);
    };
    int64_t grid_step = grid_last_ ? 1 : shape.row(), depth_step = grid_last_ ? shape.row() : 1;
    ContractionAxes grid, depth;
    for (size_t a = product.grid.size(); a-- > product.cut;) {
      const int64_t size = a == product.cut ? count : product.grid[a].size;
      add(grid, size, grid_step, of_grid, product.grid[a].grid_stride);
      grid_step *= size;
    }
    for (size_t a = channels_.size(); a-- > 0; depth_step *= channels_[a].size)
      add(depth, channels_[a].size, depth_step, of_filter, channels_[a].strides[Convolution::kFilter]);
    for (size_t w = lines.size(); w-- > 0; depth_step *= lines[w].patch.taps) {
      add(depth, lines[w].patch.taps, depth_step, of_filter,
          operands_.windows[w].strides[Convolution::kFilter] * lines[w].filter_step);
    }
    contraction.rows = sums_filter() ? depth : grid;
    contraction.summed = sums_filter() ? grid : depth;
    for (const auto& [size, strides] : columns_) {
      add(contraction.columns, size, 0, of_grid, strides[grid_]);
      if (size > 1) contraction.columns.back().strides[of_filter] = strides[Convolution::kFilter];
    }
    int64_t group_step = shape.matrix();
    for (size_t a = operands_.groups.size(); a-- > 0; group_step *= operands_.groups[a].size) {
      const auto& [size, strides] = operands_.groups[a];
      add(contraction.batch, size, group_step, of_grid, strides[grid_]);
      if (size > 1) contraction.batch.back().strides[of_filter] = strides[Convolution::kFilter];
    }
    return contraction;
  }

  /// Multiplies the parts of a class in one block.
  void multiply(const ClassProduct& product, const std::vector<int64_t>& blocks,
                const std::vector<ClassLine>& lines, Progress& progress) const {
    int64_t source = 0, grid = 0, filter = 0;
    std::vector<PatchWindow> patches;
    for (size_t w = 0; w < lines.size(); ++w) {
      const ConvolutionWindow& window = operands_.windows[w];
      source += blocks[w] * window.blocks[source_];
      grid += blocks[w] * window.blocks[grid_] + lines[w].result_begin * window.strides[grid_];
      filter += lines[w].filter_begin * window.strides[Convolution::kFilter];
      patches.push_back(lines[w].patch);
    }
    int64_t outer = 1;
    for (size_t a = 0; a < product.cut; ++a) outer *= product.grid[a].size;
    for (int64_t number = 0; number < outer; ++number) {
      for (int64_t begin = 0; begin < product.grid[product.cut].size; begin += product.count) {
        std::vector<PatchWindow> here = patches;
        int64_t from = source, at = grid, rest = number;
        for (size_t a = product.cut + 1; a-- > 0;) {
          const GridAxis& axis = product.grid[a];
          const int64_t index = a == product.cut ? begin : rest % axis.size;
          if (a < product.cut) rest /= axis.size;
          from += index * axis.source_stride;
          at += index * axis.grid_stride;
          if (axis.window >= 0) {
            PatchWindow& window = here[static_cast<size_t>(axis.window)];
            window.begin += index * window.position_step;
          }
        }
        const bool is_last = begin + product.count > product.grid[product.cut].size;
        multiply(is_last ? product.last : product.part, here, from, at, filter, progress);
      }
    }
  }

  /// Multiplies one part; offsets of what it reads of the source, and of what of the grid and the filter.
  void multiply(const Part& part, const std::vector<PatchWindow>& windows, int64_t source, int64_t grid,
                int64_t filter, Progress& progress) const {
    std::byte* patches = progress.scratch + sums_bytes_;
    const auto input = [&](Convolution::Role role, int64_t at) {
      return progress.call.inputs[static_cast<size_t>(operands_.input_of(role))].data + at * element_;
    };
    part.copy(progress.launch, input(source_, source), patches, windows);
    const auto output_bytes = static_cast<int64_t>(size_of(product_dtype()));
    const std::array<Slice, 2> factors = {
        Slice{patches}, Slice{sums_filter() ? input(grid_, grid) : input(Convolution::kFilter, filter)}};
    const std::array<Slice, 1> results = {
        Slice{progress.result + (sums_filter() ? filter : grid) * output_bytes}};
    KernelCall call = progress.call;
    call.inputs = factors;
    call.outputs = results;
    call.scratch = patches + patch_bytes_;
    call.iteration = progress.parts++;
    // The sums of a filter are in scratch if there is a guard.
    if (sums_filter()) call.guard = nullptr;
    progress.flops += part.product->run(call, 0, 1);
  }

  void set_to_zero(const Launcher& launch, const KernelCall& call) const {
    const int64_t bytes = bytes_of(operands_.of(result_).local, output_);
    const int64_t word = common_word({bytes});
    launch(over(bytes / word), SetToZero{call.output<std::byte>(0), bytes / word, word});
  }

  void store_sums(const Launcher& launch, const KernelCall& call) const {
    const int64_t size = operands_.of(result_).local.size();
    const auto store_as = [&]<class C, class Out>(C, Out) {
      launch(over(size), StoreSums<C, Out>{reinterpret_cast<const C*>(scratch_aligned(call.scratch)),
                                           call.output<Out>(0), size});
    };
    if (output_ == DType::kFloat64) return store_as(double{}, double{});
    output_ == DType::kBFloat16 ? store_as(float{}, BFloat16{}) : store_as(float{}, float{});
  }

  ConvolutionOperands operands_;  ///< windows, groups and images in the order in which the source has them
  Convolution::Role result_, source_, grid_;  ///< `grid_`: what has the grid besides the patches
  DType dtype_, output_;
  int64_t element_;  ///< bytes of an element of the inputs
  bool guarded_;
  Device& device_;
  StridedAxes<3> channels_,
      columns_;             ///< summed dimensions, or with a filter as result its rows; and the columns
  bool grid_last_ = false;  ///< PatchShape::grid_last
  std::map<Key, ClassProduct> products_;
  bool skips_entries_ = false;  ///< no window reads some entries
  // Scratch: the sums of a filter that are not summed in place, the patches, and what products need.
  int64_t sums_bytes_ = 0, patch_bytes_ = 0, product_bytes_ = 0;
  int64_t scratch_ = 0;
};

std::unique_ptr<Kernel> convolution_kernel(const KernelContext& context, Device& device) {
  MTF_CHECK(!context.accumulates, "{} cannot add to its output", context.operation.name());
  ConvolutionOperands operands(context);
  if (operands.inputs.empty() && operands.outputs.empty())
    return make_depthwise_convolution(operands, device, contraction_flops(context));
  if (std::optional<Contraction> contraction = as_contraction(operands)) {
    contraction->input = context.inputs[0].dtype;
    contraction->output = context.outputs[0].dtype;
    contraction->precision = operands.precision;
    contraction->output_in_scratch = context.guarded;
    return make_product(*contraction, false, device);
  }
  return std::make_unique<PatchConvolution>(std::move(operands), context, device);
}

const DeviceKernelRegistration convolutions[] = {
    {"convolution", kFloatingTypes, convolution_kernel},
    {"transposed_convolution", kFloatingTypes, convolution_kernel},
    {"convolution_filter_gradient", kFloatingTypes, convolution_kernel},
};

}  // namespace
}  // namespace mtf::cuda
