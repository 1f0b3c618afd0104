// Row access for kernels that work on one row at a time in float32 or float64: contiguous rows of that type
// are used in place; others (the dimension is not the last one, or bfloat16) pass through a buffer in scratch
// memory.
//
//   const Rows rows = rows_along(x, "vocab");
//   const float* in = load_row(rows, call.input<T>(0), r, buffer);
//   float* out = row_target(rows, call.output<T>(0), r, buffer);   // compute, then
//   store_row(rows, out, call.output<T>(0), r);
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "engine/backend/element.h"
#include "engine/backend/rows.h"
#include "engine/base/dispatch.h"

namespace mtf {

/// The number of rows of a task, with about kElementsPerTask elements in all.
inline int64_t rows_per_task(const Rows& rows) {
  return std::max<int64_t>(1, kElementsPerTask / rows.length);
}

/// The distance in elements between the row buffers in scratch.
inline int64_t buffer_size(const Rows& rows) { return (rows.length + 15) / 16 * 16; }

/// Returns n elements that are `stride` apart: themselves, or in the buffer.
template <class T>
MTF_INLINE const Computed<T>* load_elements(const T* from, int64_t n, int64_t stride, Computed<T>* buffer) {
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (stride == 1) return from;
  }
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) buffer[i] = widen(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) buffer[i] = widen(from[i * stride]);
  }
  return buffer;
}

template <class T>
MTF_INLINE const Computed<T>* load_row(const Rows& rows, const T* data, int64_t row, Computed<T>* buffer) {
  return load_elements(data + rows.offset(row), rows.length, rows.stride, buffer);
}

template <class T>
MTF_INLINE Computed<T>* row_target(const Rows& rows, T* data, int64_t row, Computed<T>* buffer) {
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (rows.stride == 1) return data + rows.offset(row);
  }
  return buffer;
}

/// Writes a row that was computed in a buffer; does nothing if it was computed in place.
template <class T>
MTF_INLINE void store_row(const Rows& rows, const Computed<T>* computed, T* data, int64_t row) {
  T* to = data + rows.offset(row);
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (rows.stride == 1) return;
  }
  for (int64_t i = 0; i < rows.length; ++i) to[i * rows.stride] = narrow<T>(computed[i]);
}

/// The largest element; a NaN among others may be ignored. It compares the bits as integers in the order of
/// the floats, since the compiler may not reorder comparisons of floats.
MTF_INLINE float maximum_of(const float* x, int64_t n) {
  const auto ordered = [](int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
  int32_t top = ordered(std::bit_cast<int32_t>(-std::numeric_limits<float>::infinity()));
  for (int64_t i = 0; i < n; ++i) top = std::max(top, ordered(std::bit_cast<int32_t>(x[i])));
  return std::bit_cast<float>(ordered(top));
}
MTF_INLINE double maximum_of(const double* x, int64_t n) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

}  // namespace mtf
