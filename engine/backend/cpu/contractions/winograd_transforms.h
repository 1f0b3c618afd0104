// The transforms of Winograd's F(2x2, 3x3) (winograd.h) on rows of channels: 4 x 4 places of a tile, each of which is a plane
// of matrix products, so many elements from the next one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/base/dispatch.h"

namespace mtf::winograd {

/// A tile of A has 4 x 4 entries, of which each place is a plane.
inline constexpr int64_t kTile = 4, kPlanes = kTile * kTile;
inline constexpr int64_t kLine = 16;  ///< elements of a cache line

/// Row a of `to`, from a * stride on, is row a of Bt times the four rows x.
MTF_INLINE void transform_four(const float* const x[kTile], int64_t size, float* to, int64_t stride) {
  const float *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    to[i] = x0[i] - x2[i];
    to[stride + i] = x1[i] + x2[i];
    to[2 * stride + i] = x2[i] - x1[i];
    to[3 * stride + i] = x1[i] - x3[i];
  }
}

/// The same for the columns of some tiles, each of which begins two columns of x, `apart` elements apart, after the one
/// before it, and `tile` elements in `planes`.
MTF_INLINE void transform_columns(const float* x, int64_t apart, int64_t tiles, int64_t channels,
                                  float* planes, int64_t plane, int64_t tile) {
  for (int64_t t = 0; t < tiles; ++t, x += 2 * apart, planes += tile) {
    const float* const columns[kTile] = {x, x + apart, x + 2 * apart, x + 3 * apart};
    transform_four(columns, channels, planes, plane);
  }
}

/// A line of neighbours. The longer transforms work on whole lines, so that the bits of an element do not depend on the place that
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

}  // namespace mtf::winograd
