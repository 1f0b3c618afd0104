#include "engine/backend/cpu/contractions/gemm.h"

#include <unistd.h>

#include <algorithm>

#include "engine/backend/cpu/contractions/thin_product.h"
#include "engine/base/check.h"
#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

/// The largest depth of a block. A strip of B of this depth (48 KiB for 32 columns) streams from L2 past a
/// panel of A that stays in L1.
constexpr int64_t kMostDepth = 384;
constexpr int64_t kDepthUnit = 16;
/// Rows of A or columns of B that are packed at a time: enough to hide the packing of the other operand, and
/// more of them for a short depth.
constexpr int64_t kUsualWidth = 512, kMostWidth = 1024;
/// The most elements that are packed at a time: most of an L2 cache of 2 MiB; and the fewest.
constexpr int64_t kPackedElements = 416 << 10, kLeastPackedElements = 32 << 10;
/// Where fewer are packed at a time, that operand is resident with which less is packed. Packing costs about four times
/// what it costs to copy B while it is multiplied.
constexpr int64_t kFewPackedElements = 128 << 10, kPackingCost = 4;
/// A stays resident if the depth is at least kLongDepth and A has at most kFewRows rows, or, where each column of B is
/// contiguous, no more rows than B has columns and than are packed at a time: all of B is packed for each block of A.
constexpr int64_t kLongDepth = 192, kFewRows = 64;
constexpr int64_t kLine = 16;  ///< elements of a cache line
/// With fewer strips of B, A is read in place.
constexpr int64_t kStripsToPackA = 5;
/// With fewer panels of A, B is read in place.
constexpr int64_t kPanelsToPackB = 3;
/// Panels of A that are packed at a time if their rows are neighbours in memory: a panel's rows are a part of a cache line.
constexpr int64_t kPanelsAtOnce = 8;
/// The number of rows of A that are read in place at a time if they are a multiple of kSetStride bytes apart,
/// so that their cache lines fall into one set of L1.
constexpr int64_t kRowsOfOneSet = 8, kSetStride = 4096;
/// Rows of B are prefetched this many steps ahead: from L2 if packed, from memory if not.
constexpr int64_t kPrefetchedRows = 8, kPrefetchedRowsInPlace = 10;

/// The size of the largest part if `size` is cut into about equal parts, each a multiple of `unit` and at
/// most `most`.
int64_t balanced(int64_t size, int64_t most, int64_t unit) {
  const int64_t parts = ceil_divide(size, std::max(most / unit, int64_t{1}) * unit);
  return round_up(ceil_divide(size, std::max(parts, int64_t{1})), unit);
}

void pack(const GemmKernels& kernels, const Strip<float>& strip, float* to, int64_t to_stride) {
  kernels.pack(strip, to, to_stride);
}
void pack(const GemmKernels& kernels, const Strip<BFloat16>& strip, float* to, int64_t to_stride) {
  kernels.pack_bf16(strip, to, to_stride);
}

void pack(const GemmKernels& kernels, const Strip<float>& strip, const Panels& panels, float* to) {
  kernels.pack_panels(strip, panels, to);
}
void pack(const GemmKernels& kernels, const Strip<BFloat16>& strip, const Panels& panels, float* to) {
  kernels.pack_panels_bf16(strip, panels, to);
}

/// The elements that are packed at a time on this machine: three quarters of its L2 cache.
int64_t packed_elements() {
  static const int64_t elements = [] {
    const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 where it is not known
    return bytes > 0 ? std::clamp(bytes * 3 / 16, kLeastPackedElements, kPackedElements) : kPackedElements;
  }();
  return elements;
}

int64_t depth_of(std::span<const SummedAxis> summed) {
  int64_t depth = 1;
  for (const SummedAxis& axis : summed) depth *= axis.size;
  return depth;
}

/// Cuts `rows` into panels of about equal sizes, none larger than `most`.
Panels panels_of(int64_t rows, int64_t most) {
  const int64_t count = ceil_divide(rows, most);
  return {count, rows / count, rows % count};
}

/// Those of `panels` from `first` on, at most `most` of them.
Panels some_of(const Panels& panels, int64_t first, int64_t most) {
  return {std::min(most, panels.count - first), panels.size, std::max<int64_t>(0, panels.longer - first)};
}

/// The block of a product that is multiplied at a time. One operand stays packed in L2; of the other, one
/// panel or strip at a time is in L1. If B is resident, C is written row by row; if A is resident, much
/// packing of B is saved when A has few rows, and less is read from L2.
struct Blocks {
  bool a_resident;
  /// The depth of one block, and of the blocks for which the resident operand is packed together.
  int64_t depth, group;
  int64_t rows, columns;  ///< extents of the resident operand; the other one is whole

  /// `b_by_columns`: the columns of B are contiguous; `b_in_place`: rows of B are, and are read where they are.
  Blocks(int64_t all_rows, int64_t all_columns, int64_t all_depth, bool b_by_columns, bool a_in_place,
         bool b_in_place, const GemmKernels& kernels)
      : depth(depth_block(all_depth)) {
    const int64_t packed = packed_elements(), usual = std::min(kUsualWidth, packed / depth);
    const int64_t width = std::clamp(packed / round_up(all_depth, depth), usual, kMostWidth);
    a_resident =
        all_depth >= kLongDepth && all_rows <= (b_by_columns ? std::min(width, all_columns) : kFewRows);
    if (packed < kFewPackedElements && !a_in_place) {
      const int64_t packing_of_b = b_in_place ? 1 : kPackingCost;
      a_resident |= packing_of_b * all_columns * (ceil_divide(all_rows, width) - 1) <=
                    kPackingCost * all_rows * (ceil_divide(all_columns, width) - 1);
    }
    rows = a_resident ? balanced(all_rows, width, kernels.tile_rows) : all_rows;
    columns = a_resident ? all_columns : balanced(all_columns, width, 2 * kernels.vector_width);
    group = balanced(all_depth, std::max(depth, packed / (a_resident ? rows : columns)), depth);
  }
  /// The elements of packed A, including those by which the last vector exceeds a panel.
  int64_t elements_a(const GemmKernels& kernels) const {
    return round_up(a_resident ? rows * group : kPanelsAtOnce * kernels.tile_rows * depth, kLine) + kLine;
  }
};

template <class T>
class BlockedProduct {
 public:
  BlockedProduct(const Product<T>& product, const GemmKernels& kernels, float* scratch)
      : product_(product),
        kernels_(kernels),
        inner_(product.summed.empty() ? SummedAxis{} : product.summed.back()),
        is_plain_(product.summed.size() <= 1 && !inner_.places),
        in_place_(std::is_same_v<T, float> && is_plain_),
        strip_(2 * kernels.vector_width),
        depth_(depth_of(product.summed)),
        few_strips_(ceil_divide(product.columns, strip_) < kStripsToPackA),
        a_in_one_set_(inner_.a_stride == 1 && is_in_one_set(product.a_row_stride)),
        a_in_place_(in_place_ && !product.a_rows &&
                    (few_strips_ || (inner_.a_stride == 1 && !a_in_one_set_))),
        panels_at_once_(
            !a_in_place_ && is_plain_ && !product.a_rows && product.a_row_stride == 1 ? kPanelsAtOnce : 1),
        blocks_(product.rows, product.columns, depth_, inner_.b_stride == 1, a_in_place_,
                in_place_ && product.b_column_stride == 1, kernels),
        packed_a_(scratch),
        packed_b_(scratch + blocks_.elements_a(kernels)),
        most_rows_(std::min<int64_t>(a_in_place_ && a_in_one_set_ ? kRowsOfOneSet : kernels.tile_rows,
                                     kernels.tile_rows)) {}

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

  /// Cache lines of the next panels of A or strip of B, which are prefetched into L2 while the current one is multiplied.
  struct Lines {
    const T* data = nullptr;
    int64_t count = 0, stride = 0, length = 0;

    void fetch(int64_t n) {
      for (n = std::min(n, count), count -= n; n > 0; --n, data += stride) {
        for (int64_t i = 0; i < length; i += kLine) __builtin_prefetch(data + i, 0, 2);
      }
    }
  };

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
        const Lines next = lines_of_a(range, panels, last ? first + panels_at_once_ : first,
                                      last ? range.k : k + blocks_.depth);
        multiply_panels(range, panels, first, k, next);
      }
    }
  }

  /// Multiplies the panels from `first` on that are packed at once, at a block of the depth, with all columns. Lines `next`
  /// are prefetched meanwhile.
  void multiply_panels(const Range& range, const Panels& panels, int64_t first, int64_t k, Lines next) const {
    Tile tile;
    tile.c_row_stride = product_.c_row_stride;
    set_depth(tile, range, k);
    const Panels some = some_of(panels, first, panels_at_once_);
    const int64_t columns = range.end_column - range.column;
    const int64_t lines = ceil_divide(next.count * strip_, columns * some.count);
    float* packed_b = packed_b_ + (k - range.k) * round_up(columns, kernels_.vector_width);
    float* packed_a = packed_a_;
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
    Lines next;
    for (int64_t column = range.column; column < range.end_column; column += strip_) {
      for (int64_t k = range.k; k < range.end_k; k += blocks_.depth) {
        set_depth(tile, range, k);
        float* packed = packed_a_ + (k - range.k) * (range.end_row - range.row);
        for (int64_t panel = 0; panel < panels.count; ++panel) {
          const int64_t row = range.row + panels.begin(panel), rows = panels.rows(panel);
          const bool packs = column == range.column && panel % panels_at_once_ == 0;
          set_a(tile, row, packs ? some_of(panels, panel, panels_at_once_) : Panels{}, k, packed);
          set_b(tile, range, column, k, packed_b_, panel == 0, panels.count);
          if (panel == 0) next = next_lines_of_b(range, column, k);
          next.fetch(ceil_divide(next.count, panels.count - panel));
          multiply_tile(tile, row, rows, column);
          packed += rows * tile.depth;
        }
      }
    }
  }

  void set_depth(Tile& tile, const Range& range, int64_t k) const {
    tile.depth = std::min(range.end_k - k, blocks_.depth);
    tile.add = k > 0 || product_.adds;
  }

  void multiply_tile(Tile& tile, int64_t row, int64_t rows, int64_t column) const {
    tile.c = product_.c + (product_.c_rows ? column : row * product_.c_row_stride + column);
    tile.c_rows = product_.c_rows ? product_.c_rows + row : nullptr;
    const int vectors = tile.columns > kernels_.vector_width ? 2 : 1;
    (a_in_place_ ? kernels_.strided : kernels_.packed)[vectors - 1][rows - 1](tile);
  }

  /// Those of the panels from `first` on that are packed at once, at depth k.
  Lines lines_of_a(const Range& range, const Panels& panels, int64_t first, int64_t k) const {
    if (!is_plain_ || few_strips_ || product_.a_rows || first >= panels.count) return {};
    const int64_t row = range.row + panels.begin(first);
    const T* data = product_.a + row * product_.a_row_stride + k * inner_.a_stride;
    const int64_t depth = std::min(depth_ - k, blocks_.depth);
    const int64_t rows = some_of(panels, first, panels_at_once_).rows();
    if (inner_.a_stride == 1) return {data, rows, product_.a_row_stride, depth};
    return {data, depth, inner_.a_stride, panels_at_once_ > 1 ? rows : 1};
  }

  /// Those of the strip of B that is read after the one at `column` and k.
  Lines next_lines_of_b(const Range& range, int64_t column, int64_t k) const {
    k += blocks_.depth;
    if (k >= range.end_k) {
      k = range.k;
      column += strip_;
    }
    if (!is_plain_ || column >= range.end_column) return {};
    const T* data = product_.b + column * product_.b_column_stride + k * inner_.b_stride;
    const int64_t width = std::min(strip_, range.end_column - column);
    const int64_t depth = std::min(range.end_k - k, blocks_.depth);
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
        pack_panels(strip, k, tile.depth, panels, packed);
      } else if (panels.count == 1) {
        pack(strip, &SummedAxis::a_stride, k, tile.depth, packed, strip.width);
      }
      tile.a = packed;
    }
  }

  /// If the rows of B are contiguous, the first panel reads them in place and copies them for the others.
  void set_b(Tile& tile, const Range& range, int64_t column, int64_t k, float* packed, bool first,
             int64_t panels) const {
    tile.columns = std::min(strip_, range.end_column - column);
    const int64_t width = tile.columns > kernels_.vector_width ? strip_ : kernels_.vector_width;
    const T* b = product_.b + column * product_.b_column_stride;
    const bool copies = panels >= kPanelsToPackB;
    if (in_place_ && product_.b_column_stride == 1 && tile.columns == width && (first || !copies)) {
      tile.b = unpacked(b + k * inner_.b_stride);
      tile.b_depth_stride = inner_.b_stride;
      tile.b_prefetch = kPrefetchedRowsInPlace * inner_.b_stride;
      tile.packed_b = copies ? packed : nullptr;
    } else {
      if (first)
        pack({.data = b, .width = tile.columns, .stride = product_.b_column_stride}, &SummedAxis::b_stride, k,
             tile.depth, packed, width);
      tile.b = packed;
      tile.b_depth_stride = width;
      tile.b_prefetch = kPrefetchedRows * width;
      tile.packed_b = nullptr;
    }
  }

  static const float* unpacked(const T* data) {
    if constexpr (std::is_same_v<T, float>) return data;
    MTF_CHECK(false, "bfloat16 is always packed");
  }

  /// Packs depths k ... k + depth - 1 of a strip, in runs along the innermost summed axis.
  void pack(Strip<T> strip, int64_t SummedAxis::*stride, int64_t k, int64_t depth, float* to,
            int64_t to_stride) const {
    const T* data = strip.data;
    strip.depth_stride = inner_.*stride;
    if (inner_.places) {
      strip.places = inner_.places + k;
      strip.depth = depth;
      return mtf::pack(kernels_, strip, to, to_stride);
    }
    for (const int64_t end = k + depth; k < end; k += strip.depth, to += strip.depth * to_stride) {
      int64_t offset = 0, rest = k;
      for (size_t i = product_.summed.size(); i-- > 0; rest /= product_.summed[i].size)
        offset += rest % product_.summed[i].size * (product_.summed[i].*stride);
      strip.data = data + offset;
      strip.depth = std::min(inner_.size - k % inner_.size, end - k);
      mtf::pack(kernels_, strip, to, to_stride);
    }
  }

  void pack_panels(Strip<T> strip, int64_t k, int64_t depth, const Panels& panels, float* to) const {
    strip.data += k * inner_.a_stride;
    strip.depth_stride = inner_.a_stride;
    strip.depth = depth;
    mtf::pack(kernels_, strip, panels, to);
  }

  const Product<T>& product_;
  const GemmKernels& kernels_;
  const SummedAxis inner_;
  const bool is_plain_;  ///< one axis with equal strides is summed
  const bool in_place_;  ///< operands can be read in place
  const int64_t strip_, depth_;
  const bool few_strips_, a_in_one_set_, a_in_place_;
  const int64_t panels_at_once_;
  const Blocks blocks_;
  float *const packed_a_, *const packed_b_;
  const int64_t most_rows_;  ///< the most rows that a panel has
};

template <class T>
void multiply_with(const Product<T>& product, float* scratch, const GemmKernels& kernels) {
  Product<T> rest = product;
  const int64_t columns = multiply_few_rows(product, scratch, kernels);
  rest.b += columns * product.b_column_stride;
  rest.c += columns;
  rest.columns -= columns;
  if (columns == 0 || rest.columns > 0) BlockedProduct<T>(rest, kernels, scratch).run();
}

/// out[j] (+)= sum over k of a[k] * b[k][j] for contiguous rows of b. Each pass over `out` adds four terms.
MTF_INLINE void add_scaled_rows(const SummedAxis& axis, int64_t columns, const double* a, const double* b,
                                double* out, bool accumulate) {
  if (!accumulate) std::fill(out, out + columns, 0.0);
  int64_t k = 0;
  for (; k + 4 <= axis.size; k += 4) {
    const double a0 = a[axis.place(k) * axis.a_stride], a1 = a[axis.place(k + 1) * axis.a_stride],
                 a2 = a[axis.place(k + 2) * axis.a_stride], a3 = a[axis.place(k + 3) * axis.a_stride];
    const double *b0 = b + axis.place(k) * axis.b_stride, *b1 = b + axis.place(k + 1) * axis.b_stride,
                 *b2 = b + axis.place(k + 2) * axis.b_stride, *b3 = b + axis.place(k + 3) * axis.b_stride;
    for (int64_t j = 0; j < columns; ++j) out[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
  }
  for (; k < axis.size; ++k) {
    const double scale = a[axis.place(k) * axis.a_stride];
    for (int64_t j = 0; j < columns; ++j) out[j] += scale * b[axis.place(k) * axis.b_stride + j];
  }
}

MTF_INLINE double dot(const SummedAxis& axis, const double* a, const double* b) {
  double sum = 0;
  if (axis.a_stride == 1 && axis.b_stride == 1 && !axis.places) {
    for (int64_t k = 0; k < axis.size; ++k) sum += a[k] * b[k];
  } else {
    for (int64_t k = 0; k < axis.size; ++k)
      sum += a[axis.place(k) * axis.a_stride] * b[axis.place(k) * axis.b_stride];
  }
  return sum;
}

/// Computes the part of the product at one index of the outer summed axes.
MTF_INLINE void multiply_by_loops(const Product<double>& product, const SummedAxis& axis, const double* a,
                                  const double* b, bool accumulate) {
  for (int64_t i = 0; i < product.rows; ++i) {
    const double* row = a + (product.a_rows ? product.a_rows[i] : i * product.a_row_stride);
    double* out = product.c + (product.c_rows ? product.c_rows[i] : i * product.c_row_stride);
    if (product.b_column_stride == 1 && product.columns > 1) {
      add_scaled_rows(axis, product.columns, row, b, out, accumulate);
      continue;
    }
    for (int64_t j = 0; j < product.columns; ++j) {
      const double sum = dot(axis, row, b + j * product.b_column_stride);
      out[j] = accumulate ? out[j] + sum : sum;
    }
  }
}

MTF_INLINE void add_products_by_loops(const Products<double>& products, double* sums) {
  for (int64_t k = 0; k < products.depth; ++k) {
    const double *a = products.a + k * products.a_stride, *b = products.b + k * products.b_stride;
    for (int64_t j = 0; j < products.size; ++j) sums[j] += a[j] * b[j];
  }
}

}  // namespace

const GemmKernels& gemm_kernels(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return *avx512_gemm_kernels();
    case InstructionSet::kAvx2:
      return *avx2_gemm_kernels();
    case InstructionSet::kPortable:
      break;
  }
  return *portable_gemm_kernels();
}

int64_t depth_block(int64_t depth) {
  const int64_t blocks = std::max<int64_t>(1, ceil_divide(depth, kMostDepth));
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
    most = std::max({most, resident(rows, kernels.tile_rows) + strip * block,
                     resident(columns, strip) + kPanelsAtOnce * kernels.tile_rows * block});
  }
  return most + 2 * kLine;
}

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

void add_products(const Products<float>& products, float* sums) {
  gemm_kernels(instruction_set()).add_products(products, sums);
}
void add_products(const Products<BFloat16>& products, float* sums) {
  gemm_kernels(instruction_set()).add_products_bf16(products, sums);
}
void add_products(const Products<double>& products, double* sums) {
  dispatched<add_products_by_loops>(products, sums);
}

void multiply(const Product<double>& product, double*) {
  const SummedAxis inner = product.summed.empty() ? SummedAxis{} : product.summed.back();
  const int64_t outer = depth_of(product.summed) / std::max<int64_t>(1, inner.size);
  for (int64_t entry = 0; entry < outer; ++entry) {
    const double *a = product.a, *b = product.b;
    int64_t rest = entry;
    for (size_t i = product.summed.size() - (product.summed.empty() ? 0 : 1); i-- > 0;
         rest /= product.summed[i].size) {
      a += rest % product.summed[i].size * product.summed[i].a_stride;
      b += rest % product.summed[i].size * product.summed[i].b_stride;
    }
    dispatched<multiply_by_loops>(product, inner, a, b, entry > 0 || product.adds);
  }
}

}  // namespace mtf
