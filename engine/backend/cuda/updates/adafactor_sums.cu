// Adafactor's sums of squares in one pass over gradient and weight. The gradient is seen as [outer, p,
// middle, q, inner] with the factored dimensions p and q. If q comes last, one pass computes both sums: a
// tile of kRows entries of p by kColumns of q adds a partial sum to each of its rows and columns. Otherwise
// both sums run along contiguous columns, in one pass each. The weight's squares are computed in separate
// tiles of the same launch.
#include <array>
#include <vector>

#include "engine/backend/cuda/device/device_kernel.h"
#include "engine/backend/cuda/device/partial_sums.h"
#include "engine/backend/element.h"
#include "engine/base/integer_division.h"
#include "engine/ops/adafactor.h"

namespace mtf::cuda {
namespace {

constexpr int kPerLane = 4;
constexpr int kColumns = kWarp * kPerLane;
constexpr int kRowsPerWarp = 8;
constexpr int kRows = kWarps * kRowsPerWarp;
constexpr int64_t kSharedBytes = kWarps * kColumns * static_cast<int64_t>(sizeof(double));

/// Sums of squares of a tensor [outer, p, middle, q] along p, and also along q if `rows` is not null.
template <class A>
struct TileSquares {
  const A* x;
  int64_t p, middle, q;
  int64_t rows_size, columns_size;  ///< elements of a partial sum: without q, without p
  Divisor strips, middles, tiles;   ///< split block numbers [outer, tile, middle, strip]
  bool in_packs;
  double* rows;     ///< [strips, outer, p, middle]
  double* columns;  ///< [tiles, outer, middle, q]

  /// Does the work of block `index` of these blocks.
  MTF_DEVICE void operator()(const Block& block, int64_t index) const {
    const auto [above_strip, strip] = strips(index);
    const auto [above_middle, at_middle] = middles(above_strip);
    const auto [at_outer, tile] = tiles(above_middle);
    const int64_t first_q = strip * kColumns + block.lane() * kPerLane;
    const int64_t first_p = tile * kRows + block.warp() * kRowsPerWarp;
    const int64_t left = q - first_q;
    const int count = left < 0 ? 0 : static_cast<int>(left < kPerLane ? left : kPerLane);
    // Offset of row r of the tile in [outer, p, middle].
    const int64_t first_row = (at_outer * p + first_p) * middle + at_middle;

    Pack<A, kPerLane> values[kRowsPerWarp];
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const int here = first_p + r < p ? count : 0;
      const A* row = x + (first_row + r * middle) * q + first_q;
      if (in_packs) {
        values[r] = load<kPerLane>(row, here);
      } else {
        for (int i = 0; i < kPerLane; ++i) values[r][i] = i < here ? row[i] : A(0);
      }
    }
    double sums[kPerLane] = {};
    double row_sum = 0;  // sum of row `lane`
    for (int r = 0; r < kRowsPerWarp; ++r) {
      double squares[kPerLane];
      for (int i = 0; i < kPerLane; ++i) {
        const double value = values[r][i];
        squares[i] = value * value;
        sums[i] += squares[i];
      }
      if (rows == nullptr) continue;
      const double sum = reduce_warp(block, (squares[0] + squares[1]) + (squares[2] + squares[3]), Sum{});
      if (block.lane() == r) row_sum = sum;
    }
    if (rows != nullptr && block.lane() < kRowsPerWarp && first_p + block.lane() < p)
      rows[strip * rows_size + first_row + block.lane() * middle] = row_sum;

    double* shared = block.shared<double>();  // [warp, column]
    for (int i = 0; i < kPerLane; ++i)
      shared[block.warp() * kColumns + block.lane() * kPerLane + i] = sums[i];
    block.sync();
    const int64_t column = strip * kColumns + block.thread();
    if (block.thread() >= kColumns || column >= q) return;
    double sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp * kColumns + block.thread()];
    columns[tile * columns_size + (at_outer * middle + at_middle) * q + column] = sum;
  }
};

/// Sums of squares over all except some dimensions, by tile.
template <class T>
struct EntrySquares {
  const T* x;
  Strided<1> entries, elements;  ///< kept dimensions, and summed ones
  TileCut cut;
  bool in_packs;
  double* partials;  ///< [tiles, entries]

  MTF_DEVICE void operator()(const Block& block, int64_t index) const {
    const TileCut::Tile tile = cut.of_block(index);
    const T* entry = x + entries.at(tile.entry)[0];
    double sum = in_packs ? squares<kPack<T>>(block, entry, tile) : squares<1>(block, entry, tile);
    sum = reduce_block(block, sum, Sum{}, block.shared<double>());
    if (block.thread() == 0) partials[tile.tile * entries.size() + tile.entry] = sum;
  }

 private:
  template <int N>
  MTF_DEVICE double squares(const Block& block, const T* entry, const TileCut::Tile& tile) const {
    double sum = 0;
    for (int64_t first = tile.begin + block.thread() * N; first < tile.end; first += kThreads * N) {
      const int count = static_cast<int>(std::min<int64_t>(N, tile.end - first));
      const Pack<T, N> pack = load<N>(entry + elements.at(first)[0], count);
      for (int i = 0; i < N; ++i) {
        const double value = widen(pack[i]);
        sum += value * value;
      }
    }
    return sum;
  }
};

/// Both kinds of sums in one launch: the first `gradient_blocks` blocks are for the gradient.
template <class T>
struct Squares {
  static constexpr bool kBatched = true;
  TileSquares<Computed<T>> gradient;
  int64_t gradient_blocks;
  EntrySquares<T> weight;

  MTF_DEVICE void operator()(const Block& block) const {
    if (block.index() < gradient_blocks) {
      gradient(block, block.index());
    } else {
      weight(block, block.index() - gradient_blocks);
    }
  }
};

/// A pass over the gradient as [outer, p, middle, q].
struct Pass {
  int64_t outer = 1, p = 1, middle = 1, q = 1;
  int rows = -1, columns = 0;  ///< numbers of the outputs; rows: -1 if there is none

  int64_t tiles() const { return ceil_divide(p, kRows); }
  int64_t strips() const { return ceil_divide(q, kColumns); }
  int64_t blocks() const { return outer * tiles() * middle * strips(); }
};

/// The product of the sizes of dimensions [begin, end).
int64_t size_between(const Shape& shape, int begin, int end) {
  int64_t size = 1;
  for (int i = begin; i < end; ++i) size *= shape[i].size;
  return size;
}

std::vector<Pass> passes_over(const Shape& shape, const Shape& summed) {
  if (summed.rank() != 2) return {};
  const int along_first = *shape.find(summed[0].name), along_second = *shape.find(summed[1].name);
  const int p = std::min(along_first, along_second), q = std::max(along_first, along_second);
  const int of_p = along_first < along_second ? 0 : 1, of_q = 1 - of_p;
  const int64_t outer = size_between(shape, 0, p), middle = size_between(shape, p + 1, q);
  const int64_t inner = size_between(shape, q + 1, shape.rank());
  const int64_t size_p = shape[p].size, size_q = shape[q].size;
  if (inner == 1) return {{outer, size_p, middle, size_q, of_q, of_p}};
  return {{outer, size_p, 1, middle * size_q * inner, -1, of_p},
          {outer * size_p * middle, size_q, 1, inner, -1, of_q}};
}

template <class T>
class SumsKernel final : public DeviceKernel {
 public:
  SumsKernel(const KernelContext& context, Device& device) : DeviceKernel(device) {
    const auto& operation = static_cast<const AdafactorSums&>(context.operation);
    const Shape& shape = context.inputs[0].local;
    passes_ = passes_over(shape, operation.summed);
    tiles_.resize(context.outputs.size(), 1);
    for (const Pass& pass : passes_) {
      tiles_[pass.columns] = pass.tiles();
      if (pass.rows >= 0) tiles_[pass.rows] = pass.strips();
    }
    if (operation.weight_sums) cut_weight(shape, *operation.weight_sums);
    const std::optional<Dimension> blocks = adafactor_blocks(context.inputs[0].global);
    blocks_ = blocks ? blocks->size : 1;
    for (const LocalTensor& output : context.outputs) entries_.push_back(output.local.size() / blocks_);
  }

  size_t scratch_bytes() const override {
    int64_t sums = 0;
    for (size_t i = 0; i < tiles_.size(); ++i) sums += tiles_[i] * entries_[i];
    return static_cast<size_t>(sums) * sizeof(double);
  }

  void enqueue(const Launcher& launch, const KernelCall& call) const override {
    AddTiles<3> add{{}, blocks_};
    auto* scratch = reinterpret_cast<double*>(call.scratch);
    for (size_t i = 0; i < tiles_.size(); ++i) {
      add.sums[i] = {scratch, tiles_[i], entries_[i], call.output<double>(static_cast<int>(i))};
      scratch += tiles_[i] * entries_[i];
    }
    Squares<T> squares{};
    if (weight_blocks_ > 0) {
      const int last = static_cast<int>(tiles_.size()) - 1;
      squares.weight = {call.input<T>(0), kept_, summed_, cut_, in_packs_, partials(add, last)};
    }
    int64_t weight_blocks = weight_blocks_;
    for (const Pass& pass : passes_) {
      squares.gradient = gradient(pass, call, add);
      squares.gradient_blocks = pass.blocks();
      launch({pass.blocks() + weight_blocks, kThreads, kSharedBytes}, squares);
      weight_blocks = 0;
    }
    if (passes_.empty()) launch({weight_blocks, kThreads, kSharedBytes}, squares);
    launch(over(add.size(), 1), add);
  }

 private:
  using A = Computed<T>;

  static double* partials(const AddTiles<3>& add, int i) { return const_cast<double*>(add.sums[i].partials); }

  TileSquares<A> gradient(const Pass& pass, const KernelCall& call, const AddTiles<3>& add) const {
    return {call.input<A>(1),
            pass.p,
            pass.middle,
            pass.q,
            pass.outer * pass.p * pass.middle,
            pass.outer * pass.middle * pass.q,
            Divisor(pass.strips(), pass.blocks()),
            Divisor(pass.middle, pass.blocks()),
            Divisor(pass.tiles(), pass.blocks()),
            pass.q % kPerLane == 0,
            pass.rows < 0 ? nullptr : partials(add, pass.rows),
            partials(add, pass.columns)};
  }

  void cut_weight(const Shape& shape, const Shape& kept) {
    StridedAxes<1> entries, elements;
    const std::vector<int64_t> strides = shape.strides();
    for (int i = 0; i < shape.rank(); ++i)
      (kept.contains(shape[i].name) ? entries : elements).push_back({shape[i].size, {strides[i]}});
    kept_ = Strided<1>(joined(entries));
    summed_ = Strided<1>(joined(elements));
    constexpr int N = kPack<T>;
    const bool aligned =
        std::ranges::all_of(joined(entries), [](const auto& axis) { return axis.strides[0] % N == 0; });
    const bool contiguous = summed_.rank() == 0 || (summed_.rank() == 1 && summed_.inner_stride(0) == 1);
    in_packs_ = aligned && (contiguous || summed_.in_packs(0, N));
    cut_ = TileCut(kept_.size(), summed_.size());
    tiles_.back() = cut_.tiles();
    weight_blocks_ = cut_.blocks(kept_.size());
  }

  std::vector<Pass> passes_;
  std::vector<int64_t> tiles_, entries_;  ///< by output: number and size of partial sums
  int64_t blocks_ = 1;
  int64_t weight_blocks_ = 0;  ///< 0 if the weight is not summed
  Strided<1> kept_, summed_;
  TileCut cut_;
  bool in_packs_ = false;
};

template <class T>
std::unique_ptr<Kernel> adafactor_sums_kernel(const KernelContext& context, Device& device) {
  return std::make_unique<SumsKernel<T>>(context, device);
}

const DeviceKernelRegistration adafactor_sums_kernels[] = {
    {"adafactor_sums", {DType::kFloat32}, adafactor_sums_kernel<float>},
    {"adafactor_sums", {DType::kFloat64}, adafactor_sums_kernel<double>},
    {"adafactor_sums", {DType::kBFloat16}, adafactor_sums_kernel<BFloat16>},
};

}  // namespace
}  // namespace mtf::cuda
