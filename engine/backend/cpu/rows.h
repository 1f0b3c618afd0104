// A tensor seen as rows along one of its dimensions, for kernels that work on a row at a time in float32 or
// float64: contiguous rows of that type are used where they are; others (the dimension is not the last, or
// bfloat16) pass through a buffer in scratch.
//
//   const Rows rows = rows_along(x, "vocab");
//   const float* in = load_row(rows, call.input<T>(0), r, buffer);
//   float* out = row_target(rows, call.output<T>(0), r, buffer);   // compute, then
//   store_row(rows, out, call.output<T>(0), r);
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "engine/backend/cpu/element.h"
#include "engine/backend/kernel.h"
#include "engine/core/check.h"

namespace mtf {

struct Rows {
  int axis = 0;        ///< of the dimension, in declared order
  int64_t count = 1;   ///< rows, in row-major order of the other dimensions
  int64_t length = 1;  ///< elements of a row
  int64_t stride = 1;  ///< distance of its elements

  int64_t offset(int64_t row) const { return row / stride * length * stride + row % stride; }
};

inline Rows rows_along(const LocalTensor& x, const std::string& dimension) {
  const std::optional<int> axis = x.local.find(dimension);
  MTF_CHECK(axis && x.strides == x.local.strides(), "{} is not row-major or has no {}", x.local.to_string(),
            dimension);
  const int64_t length = x.local[*axis].size;
  return {*axis, x.local.size() / length, length, x.strides[*axis]};
}

/// Rows that make a task: about kElementsPerTask elements.
inline int64_t rows_per_task(const Rows& rows) {
  return std::max<int64_t>(1, kElementsPerTask / rows.length);
}

/// Elements between the row buffers in scratch.
inline int64_t buffer_size(const Rows& rows) { return (rows.length + 15) / 16 * 16; }

template <class T>
MTF_INLINE const Computed<T>* load_row(const Rows& rows, const T* data, int64_t row, Computed<T>* buffer) {
  const T* from = data + rows.offset(row);
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (rows.stride == 1) return from;
  }
  if (rows.stride == 1) {
    for (int64_t i = 0; i < rows.length; ++i) buffer[i] = widen(from[i]);
  } else {
    for (int64_t i = 0; i < rows.length; ++i) buffer[i] = widen(from[i * rows.stride]);
  }
  return buffer;
}

template <class T>
MTF_INLINE Computed<T>* row_target(const Rows& rows, T* data, int64_t row, Computed<T>* buffer) {
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (rows.stride == 1) return data + rows.offset(row);
  }
  return buffer;
}

/// Writes a row that was computed into a buffer; nothing to do when it was computed in place.
template <class T>
MTF_INLINE void store_row(const Rows& rows, const Computed<T>* computed, T* data, int64_t row) {
  T* to = data + rows.offset(row);
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (rows.stride == 1) return;
  }
  for (int64_t i = 0; i < rows.length; ++i) to[i * rows.stride] = narrow<T>(computed[i]);
}

/// The largest element; a NaN among others may be passed over. Sixteen lanes, as the compiler may not reorder
/// comparisons.
template <class A>
MTF_INLINE A maximum_of(const A* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  A lanes[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = -std::numeric_limits<A>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  A top = lanes[0];
  for (A value : lanes) top = value > top ? value : top;
  return top;
}

}  // namespace mtf
