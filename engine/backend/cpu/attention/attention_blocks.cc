#include "engine/backend/cpu/attention/attention_blocks.h"

#include <algorithm>

#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/base/dispatch.h"

namespace mtf {
namespace {

/// Rows of b are prefetched this many steps ahead.
constexpr int64_t kPrefetchedRows = 8;

const GemmKernels& kernels() { return gemm_kernels(instruction_set()); }

MTF_INLINE void multiply_by_loops(const BlockProduct<double>& product) {
  for (int64_t i = 0; i < product.rows; ++i) {
    double* c = product.c + i * product.c_row_stride;
    if (!product.add) std::fill(c, c + product.columns, 0.0);
    for (int64_t k = 0; k < product.depth; ++k) {
      const double scale = product.a[i * product.a_row_stride + k * product.a_depth_stride];
      const double* b = product.b + k * product.b_depth_stride;
      for (int64_t j = 0; j < product.columns; ++j) c[j] += scale * b[j];
    }
  }
}

template <class T>
MTF_INLINE void copy(const T* from, int64_t stride, int64_t rows, int64_t columns, Computed<T>* to) {
  const int64_t width = padded(columns);
  for (int64_t i = 0; i < rows; ++i, from += stride, to += width) {
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) to[j] = widen(from[j]);
    for (int64_t j = columns; j < width; ++j) to[j] = 0;
  }
}

template <class T>
MTF_INLINE void store(const Computed<T>* from, int64_t rows, int64_t columns, T* to, int64_t stride) {
  const int64_t width = padded(columns);
  for (int64_t i = 0; i < rows; ++i, from += width, to += stride) {
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) to[j] = narrow<T>(from[j]);
  }
}

}  // namespace

template <>
BlockSizes block_sizes<float>() {
  return {kernels().tile_rows, kernels().vector_width, 2 * kernels().vector_width};
}
template <>
BlockSizes block_sizes<double>() {
  return {8, 8, 16};
}

void multiply_block(const BlockProduct<float>& product) {
  const GemmKernels& set = kernels();
  const int64_t panel = 2 * set.vector_width;
  Tile tile;
  tile.depth = product.depth;
  tile.a_row_stride = product.a_row_stride;
  tile.a_depth_stride = product.a_depth_stride;
  tile.b_depth_stride = product.b_depth_stride;
  tile.b_prefetch = kPrefetchedRows * product.b_depth_stride;
  tile.c_row_stride = product.c_row_stride;
  tile.add = product.add;
  for (int64_t column = 0; column < product.columns; column += tile.columns) {
    const int vectors = product.columns - column > set.vector_width ? 2 : 1;
    tile.columns = vectors * set.vector_width;
    tile.b = product.b_panel_stride == 0 ? product.b + column
                                         : product.b + column / panel * product.b_panel_stride;
    for (int64_t row = 0; row < product.rows; row += set.tile_rows) {
      const int64_t rows = std::min<int64_t>(set.tile_rows, product.rows - row);
      tile.a = product.a + row * product.a_row_stride;
      tile.c = product.c + row * product.c_row_stride + column;
      set.strided[vectors - 1][rows - 1](tile);
    }
  }
}

void multiply_block(const BlockProduct<double>& product) {
  if (product.b_panel_stride == 0) {
    dispatched<multiply_by_loops>(product);
    return;
  }
  BlockProduct<double> part = product;
  const int64_t panel = block_sizes<double>().panel;
  for (int64_t column = 0; column < product.columns; column += panel) {
    part.columns = std::min(panel, product.columns - column);
    part.b = product.b + column / panel * product.b_panel_stride;
    part.c = product.c + column;
    dispatched<multiply_by_loops>(part);
  }
}

template <class C>
void multiply_panels(BlockProduct<C> product, const C* panels, int64_t memory, int64_t first, int64_t last) {
  const BlockSizes sizes = block_sizes<C>();
  C* c = product.c;
  const auto multiply_from = [&](int64_t begin, int64_t columns, int64_t width) {
    product.columns = columns;
    product.b = panels + begin * product.depth;
    product.b_depth_stride = width;
    product.b_panel_stride = width * product.depth;
    product.c = c + begin;
    multiply_block(product);
  };
  const int64_t rest = memory % sizes.panel, whole = memory - rest;  // the last panel may be narrower
  const int64_t end = std::min((last + sizes.panel - 1) / sizes.panel * sizes.panel, whole);
  if (first < end) multiply_from(first, end - first, sizes.panel);
  if (last > whole) multiply_from(whole, sizes.panel_stride(rest), sizes.panel_stride(rest));
}
template void multiply_panels(BlockProduct<float>, const float*, int64_t, int64_t, int64_t);
template void multiply_panels(BlockProduct<double>, const double*, int64_t, int64_t, int64_t);

template <>
void pack_panel(const float* from, int64_t stride, int64_t columns, int64_t depth, float* to) {
  kernels().pack({from, columns, stride, depth, 1}, to, block_sizes<float>().panel_stride(columns));
}
template <>
void pack_panel(const BFloat16* from, int64_t stride, int64_t columns, int64_t depth, float* to) {
  kernels().pack_bf16({from, columns, stride, depth, 1}, to, block_sizes<float>().panel_stride(columns));
}
template <>
void pack_panel(const double* from, int64_t stride, int64_t columns, int64_t depth, double* to) {
  const int64_t width = block_sizes<double>().panel_stride(columns);
  for (int64_t k = 0; k < depth; ++k, to += width) {
    for (int64_t i = 0; i < width; ++i) to[i] = i < columns ? from[i * stride + k] : 0;
  }
}

template <class T>
void copy_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, Computed<T>* to) {
  dispatched<copy<T>>(from, stride, rows, columns, to);
}
template void copy_rows(const float*, int64_t, int64_t, int64_t, float*);
template void copy_rows(const double*, int64_t, int64_t, int64_t, double*);
template void copy_rows(const BFloat16*, int64_t, int64_t, int64_t, float*);

template <class T>
void store_rows(const Computed<T>* from, int64_t rows, int64_t columns, T* to, int64_t stride) {
  dispatched<store<T>>(from, rows, columns, to, stride);
}
template void store_rows(const float*, int64_t, int64_t, float*, int64_t);
template void store_rows(const double*, int64_t, int64_t, double*, int64_t);
template void store_rows(const float*, int64_t, int64_t, BFloat16*, int64_t);

}  // namespace mtf
