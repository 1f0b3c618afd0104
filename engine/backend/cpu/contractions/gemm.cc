#include "engine/backend/cpu/contractions/gemm.h"

#include <algorithm>
#include <type_traits>

#include "engine/backend/cpu/contractions/denormals_are_zero.h"
#include "engine/backend/cpu/contractions/gemm_blocks.h"
#include "engine/backend/cpu/contractions/kernels_of_element.h"
#include "engine/backend/cpu/contractions/prefetched_rows.h"
#include "engine/backend/cpu/contractions/thin_product.h"
#include "engine/base/check.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// With fewer strips of B, A is read in place.
constexpr int64_t kStripsToPackA = 5;
/// Where vectors are short and A has few rows, it is packed for many strips also if its rows are contiguous: narrow strips read
/// a panel more often, and it leaves more of L1 to them if it is packed.
constexpr int64_t kShortVector = 8, kFewRowsToPack = 384, kManyStrips = 32;
/// With fewer panels of A, B is read in place.
constexpr int64_t kPanelsToPackB = 3;
/// The number of rows of A that are read in place at a time if they are a multiple of kSetStride bytes apart,
/// so that their cache lines fall into one set of L1.
constexpr int64_t kRowsOfOneSet = 8, kSetStride = 4096;
/// Rows of B are prefetched this many steps ahead: from L2 if packed, from memory if not.
constexpr int64_t kPrefetchedRows = 8, kPrefetchedRowsInPlace = 10;

template <class T>
class BlockedProduct {
 public:
  BlockedProduct(const Product<T>& product, const GemmKernels& kernels, float* scratch)
      : product_(product),
        kernels_(kernels),
        pairs_(product.in_bfloat16 ? kernels.pairs : nullptr),
        rounds_(product.in_bfloat16 && !pairs_),
        inner_(product.summed.empty() ? SummedAxis{} : product.summed.back()),
        is_plain_(product.summed.size() <= 1 && !inner_.places),
        in_place_(std::is_same_v<T, float> && is_plain_ && !product.in_bfloat16),
        strip_(2 * kernels.vector_width),
        tile_rows_(pairs_ ? pairs_->tile_rows : kernels.tile_rows),
        depth_(depth_of(product.summed)),
        few_strips_(strips() < kStripsToPackA),
        a_in_one_set_(inner_.a_stride == 1 && is_in_one_set(product.a_row_stride)),
        a_in_place_(in_place_ && !product.a_rows &&
                    (few_strips_ || (inner_.a_stride == 1 && !a_in_one_set_ && !packs_rows()))),
        panels_at_once_(!a_in_place_ && is_plain_ && !rounds_ && !reads_by_rows() && !product.a_rows &&
                                product.a_row_stride == 1
                            ? kPanelsAtOnce
                            : 1),
        columns_at_once_(pairs_ && is_plain_ && product.b_column_stride == 1 ? kStripsAtOnce * strip_
                                                                             : strip_),
        a_by_rows_(reads_by_rows() ||
                   (pairs_ && inner_.a_stride == 1 && !inner_.places && panels_at_once_ == 1)),
        blocks_(product.rows, product.columns, depth_, pairs_ != nullptr, inner_.b_stride == 1, a_in_place_,
                in_place_ && product.b_column_stride == 1, tile_rows_, strip_),
        packed_a_(scratch),
        packed_b_(scratch + blocks_.elements_a(panels_at_once_ * tile_rows_)),
        most_rows_(std::min(a_in_place_ && a_in_one_set_ ? kRowsOfOneSet : tile_rows_, tile_rows_)) {}

  void run() const {
    for (int64_t row = 0; row < product_.rows; row += blocks_.rows) {
      for (int64_t column = 0; column < product_.columns; column += blocks_.columns) {
        for (int64_t k = 0; k < depth_; k += blocks_.group) {
          run({row, std::min(product_.rows, row + blocks_.rows), column,
               std::min(product_.columns, column + blocks_.columns), k, std::min(depth_, k + blocks_.group)});
        }
      }
    }
  }

 private:
  struct Range {
    int64_t row, end_row, column, end_column, k, end_k;
  };

  bool reads_by_rows() const { return pairs_ && pairs_->reads_by_rows(); }

  int64_t strips() const { return ceil_divide(product_.columns, strip_); }

  /// True if A is packed also where its rows are contiguous.
  bool packs_rows() const {
    return kernels_.vector_width <= kShortVector && product_.rows <= kFewRowsToPack &&
           strips() >= kManyStrips;
  }

  /// True if rows that are `stride` elements apart fall into one set of L1.
  static bool is_in_one_set(int64_t stride) {
    const int64_t line = stride * static_cast<int64_t>(sizeof(T)) % kSetStride;
    return std::min(line, kSetStride - line) < kSetStride / 16;
  }

  void run(const Range& range) const {
    if (blocks_.a_resident) {
      run_past_resident_a(range);
    } else {
      run_past_resident_b(range);
    }
  }

  void run_past_resident_b(const Range& range) const {
    const Panels panels = panels_of(range.end_row - range.row, most_rows_);
    for (int64_t first = 0; first < panels.count; first += panels_at_once_) {
      for (int64_t k = range.k; k < range.end_k; k += blocks_.depth) {
        const bool last = k + blocks_.depth >= range.end_k;
        const PrefetchedRows next = lines_of_a(range, panels, last ? first + panels_at_once_ : first,
                                               last ? range.k : k + blocks_.depth);
        multiply_panels(range, panels, first, k, next);
      }
    }
  }

  /// Multiplies the panels from `first` on that are packed at once, at a block of the depth, with all columns. Rows `next`
  /// are fetched meanwhile.
  void multiply_panels(const Range& range, const Panels& panels, int64_t first, int64_t k,
                       PrefetchedRows next) const {
    Tile tile;
    tile.c_row_stride = product_.c_row_stride;
    set_depth(tile, k);
    const Panels some = panels.some(first, panels_at_once_);
    const int64_t columns = range.end_column - range.column;
    const int64_t lines = ceil_divide(next.rows() * strip_, columns * some.count);
    float* packed_b = packed_b_ + packed_depth(k - range.k) * round_up(columns, kernels_.vector_width);
    float* packed_a = packed_a_;
    if (first == 0) pack_columns(range.column, range.end_column, k, packed_b);
    for (int64_t panel = first; panel < first + some.count; ++panel) {
      const int64_t row = range.row + panels.begin(panel), rows = panels.rows(panel);
      set_a(tile, row, panel == first ? some : Panels{}, k, packed_a);
      float* packed = packed_b;
      for (int64_t column = range.column; column < range.end_column; column += strip_) {
        next.fetch(lines);
        set_b(tile, range, column, k, packed, panel == 0, panels.count);
        multiply_tile(tile, row, rows, column);
        packed += strip_ * tile.depth;
      }
      packed_a += rows * tile.depth;
    }
  }

  void run_past_resident_a(const Range& range) const {
    const Panels panels = panels_of(range.end_row - range.row, most_rows_);
    Tile tile;
    tile.c_row_stride = product_.c_row_stride;
    for (int64_t first = range.column; first < range.end_column; first += columns_at_once_) {
      const int64_t end = std::min(range.end_column, first + columns_at_once_);
      for (int64_t k = range.k; k < range.end_k; k += blocks_.depth) {
        set_depth(tile, k);
        pack_columns(first, end, k, packed_b_);
        PrefetchedRows next = next_lines_of_b(range, first, k);
        int64_t tiles = panels.count * ceil_divide(end - first, strip_);
        float* packed_b = packed_b_;
        for (int64_t column = first; column < end; column += strip_) {
          float* packed = packed_a_ + packed_depth(k - range.k) * (range.end_row - range.row);
          for (int64_t panel = 0; panel < panels.count; ++panel) {
            const int64_t row = range.row + panels.begin(panel), rows = panels.rows(panel);
            const bool packs = column == range.column && panel % panels_at_once_ == 0;
            set_a(tile, row, packs ? panels.some(panel, panels_at_once_) : Panels{}, k, packed);
            set_b(tile, range, column, k, packed_b, panel == 0, panels.count);
            next.fetch(ceil_divide(next.rows(), tiles--));
            multiply_tile(tile, row, rows, column);
            packed += rows * tile.depth;
          }
          packed_b += strip_ * tile.depth;
        }
      }
    }
  }

  /// The rows that so many depths take where they are packed.
  int64_t packed_depth(int64_t depth) const {
    const int64_t pairs = ceil_divide(depth, int64_t{2});
    return pairs_ ? pairs : rounds_ ? 2 * pairs : depth;
  }

  /// The depth of the block that begins at k.
  int64_t depth_at(int64_t k) const { return std::min(depth_ - k, blocks_.depth); }

  void set_depth(Tile& tile, int64_t k) const {
    tile.depth = packed_depth(depth_at(k));
    tile.add = k > 0 || product_.adds;
  }

  void multiply_tile(Tile& tile, int64_t row, int64_t rows, int64_t column) const {
    tile.c = product_.c + (product_.c_rows ? column : row * product_.c_row_stride + column);
    tile.c_rows = product_.c_rows ? product_.c_rows + row : nullptr;
    const int vectors = tile.columns > kernels_.vector_width ? 2 : 1;
    multiply_of(vectors, rows)(tile);
  }

  GemmKernels::Multiply multiply_of(int vectors, int64_t rows) const {
    if (a_by_rows_) return pairs_->by_rows[vectors - 1][rows - 1];
    if (pairs_) return pairs_->packed[vectors - 1][rows - 1];
    return (a_in_place_ ? kernels_.strided : kernels_.packed)[vectors - 1][rows - 1];
  }

  /// Those of the panels from `first` on that are packed at once, at depth k.
  PrefetchedRows lines_of_a(const Range& range, const Panels& panels, int64_t first, int64_t k) const {
    if (!is_plain_ || few_strips_ || product_.a_rows || first >= panels.count) return {};
    const int64_t row = range.row + panels.begin(first);
    const T* data = product_.a + row * product_.a_row_stride + k * inner_.a_stride;
    const int64_t depth = depth_at(k), rows = panels.some(first, panels_at_once_).rows();
    if (inner_.a_stride == 1) return {data, rows, product_.a_row_stride, depth};
    return {data, depth, inner_.a_stride, panels_at_once_ > 1 ? rows : 1};
  }

  /// Those of the columns of B that are read after the ones from `column` on at k. Strips need none: they are read in order.
  PrefetchedRows next_lines_of_b(const Range& range, int64_t column, int64_t k) const {
    k += blocks_.depth;
    if (k >= range.end_k) {
      k = range.k;
      column += columns_at_once_;
    }
    if (!is_plain_ || product_.b_strip_stride > 0 || column >= range.end_column) return {};
    const T* data = product_.b + column * product_.b_column_stride + k * inner_.b_stride;
    const int64_t width = std::min(columns_at_once_, range.end_column - column);
    const int64_t depth = depth_at(k);
    if (inner_.b_stride == 1) return {data, width, product_.b_column_stride, depth};
    return {data, depth, inner_.b_stride, width};
  }

  /// Packs `panels`, of which the first one begins at `row`.
  void set_a(Tile& tile, int64_t row, const Panels& panels, int64_t k, float* packed) const {
    const T* a = product_.a_rows ? product_.a : product_.a + row * product_.a_row_stride;
    const int64_t* offsets = product_.a_rows ? product_.a_rows + row : nullptr;
    if (a_in_place_) {
      tile.a = unpacked(a + k * inner_.a_stride);
      tile.a_row_stride = product_.a_row_stride;
      tile.a_depth_stride = inner_.a_stride;
    } else {
      const Strip<T> strip{
          .data = a, .width = panels.rows(), .stride = product_.a_row_stride, .offsets = offsets};
      if (panels.count > 1) {
        pack_panels(strip, k, panels, packed);
      } else if (panels.count == 1) {
        pack(strip, &SummedAxis::a_stride, k, packed, a_by_rows_ ? tile.depth : strip.width);
      }
      tile.a = packed;
      tile.a_row_stride = tile.depth;  // where it is packed by rows
    }
  }

  /// If the rows of B are contiguous, the first panel reads them in place and copies them for the others, unless they are in
  /// strips.
  void set_b(Tile& tile, const Range& range, int64_t column, int64_t k, float* packed, bool first,
             int64_t panels) const {
    tile.columns = std::min(strip_, range.end_column - column);
    const int64_t width = tile.columns > kernels_.vector_width ? strip_ : kernels_.vector_width;
    const T* b = product_.b_at(column);
    const bool copies = panels >= kPanelsToPackB && product_.b_strip_stride == 0;
    if (in_place_ && product_.b_column_stride == 1 && tile.columns == width && (first || !copies)) {
      tile.b = unpacked(b + k * inner_.b_stride);
      tile.b_depth_stride = inner_.b_stride;
      tile.b_prefetch = kPrefetchedRowsInPlace * inner_.b_stride;
      tile.packed_b = copies ? packed : nullptr;
    } else {
      if (first && !packs_columns())
        pack({.data = b, .width = tile.columns, .stride = product_.b_column_stride}, &SummedAxis::b_stride, k,
             packed, width);
      tile.b = packed;
      tile.b_depth_stride = width;
      tile.b_prefetch = kPrefetchedRows * width;
      tile.packed_b = nullptr;
    }
  }

  /// True if strips of B are packed several at a time.
  bool packs_columns() const { return columns_at_once_ > strip_; }

  /// Packs the block of B from depth k on if packs_columns(), strip by strip as set_b() reads them.
  void pack_columns(int64_t column, int64_t end_column, int64_t k, float* to) const {
    if (!packs_columns()) return;
    pack_columns_of<T> (*pairs_)({.data = product_.b + column + k * inner_.b_stride,
                                  .width = end_column - column,
                                  .stride = 1,
                                  .depth = depth_at(k),
                                  .depth_stride = inner_.b_stride},
                                 to);
  }

  static const float* unpacked(const T* data) {
    if constexpr (std::is_same_v<T, float>) return data;
    MTF_CHECK(false, "factors in bfloat16 are always packed");
  }

  /// Packs the block of a strip that begins at depth k, in runs along the innermost summed axis.
  void pack(Strip<T> strip, int64_t SummedAxis::*stride, int64_t k, float* to, int64_t to_stride) const {
    const T* data = strip.data;
    const int64_t begin = k, end = k + depth_at(k);
    strip.depth_stride = inner_.*stride;
    while (k < end) {
      strip.data = data;
      if (inner_.places) {
        strip.places = inner_.places + k;
        strip.depth = end - k;
      } else {
        strip.data += depth_offset(product_.summed, k, stride);
        strip.depth = std::min(inner_.size - k % inner_.size, end - k);
        if (pairs_ && strip.depth % 2 == 1 &&
            k + strip.depth < end) {  // the last entry has its pair in the next run
          --strip.depth;
          if (strip.depth == 0) {
            strip.depth = 2;
            strip.depth_stride =
                depth_offset(product_.summed, k + 1, stride) - depth_offset(product_.summed, k, stride);
          }
        }
      }
      pack_run(strip, stride == &SummedAxis::a_stride, (k - begin) / (pairs_ ? 2 : 1), to, to_stride);
      k += strip.depth;
      strip.depth_stride = inner_.*stride;
    }
    if (rounds_) kernels_.round_pairs(to, end - begin, to_stride);
  }

  /// Packs a strip behind `depth` packed depths.
  void pack_run(const Strip<T>& strip, bool is_a, int64_t depth, float* to, int64_t to_stride) const {
    if (!pairs_) {
      pack_of<T>(kernels_)(strip, to + depth * to_stride, to_stride);
    } else if (is_a && a_by_rows_) {
      pack_rows_of<T> (*pairs_)(strip, to + depth, to_stride);
    } else {
      pack_of<T> (*pairs_)(strip, to + depth * to_stride, to_stride);
    }
  }

  void pack_panels(Strip<T> strip, int64_t k, const Panels& panels, float* to) const {
    strip.data += k * inner_.a_stride;
    strip.depth_stride = inner_.a_stride;
    strip.depth = depth_at(k);
    (pairs_ ? pack_panels_of<T>(*pairs_) : pack_panels_of<T>(kernels_))(strip, panels, to);
  }

  const Product<T>& product_;
  const GemmKernels& kernels_;
  const PairKernels* const pairs_;  ///< null: factors are not multiplied in pairs
  const bool rounds_;  ///< factors are rounded to bfloat16 where they are packed, and multiplied in float32
  const SummedAxis inner_;
  const bool is_plain_;  ///< one axis with equal strides is summed
  const bool in_place_;  ///< operands can be read in place
  const int64_t strip_, tile_rows_, depth_;
  const bool few_strips_, a_in_one_set_, a_in_place_;
  const int64_t panels_at_once_;
  const int64_t columns_at_once_;  ///< columns of B that are packed at a time past a resident A
  const bool a_by_rows_;           ///< the pairs of A are packed row by row
  const ProductBlocks blocks_;
  float *const packed_a_, *const packed_b_;
  const int64_t most_rows_;  ///< the most rows that a panel has
};

template <class T>
void multiply_factors(const Product<T>& product, float* scratch, const GemmKernels& kernels) {
  Product<T> rest = product;
  const int64_t columns = multiply_few_rows(product, scratch, kernels);
  rest.b = product.b_at(columns);
  rest.c += columns;
  rest.columns -= columns;
  if (columns == 0 || rest.columns > 0) BlockedProduct<T>(rest, kernels, scratch).run();
}

template <class T>
void multiply_with(const Product<T>& product, float* scratch, const GemmKernels& kernels) {
  if (!product.in_bfloat16) return multiply_factors(product, scratch, kernels);
  const DenormalsAreZero denormals_are_zero;
  multiply_factors(product, scratch, kernels);
  if (kernels.pairs && kernels.pairs->release) kernels.pairs->release();
}

}  // namespace

void multiply(const Product<float>& product, float* scratch) {
  multiply(product, scratch, gemm_kernels(instruction_set()));
}
void multiply(const Product<BFloat16>& product, float* scratch) {
  multiply(product, scratch, gemm_kernels(instruction_set()));
}
void multiply(const Product<float>& product, float* scratch, const GemmKernels& kernels) {
  multiply_with(product, scratch, kernels);
}
void multiply(const Product<BFloat16>& product, float* scratch, const GemmKernels& kernels) {
  multiply_with(product, scratch, kernels);
}

}  // namespace mtf
