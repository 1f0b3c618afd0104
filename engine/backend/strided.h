// Iteration over strided operands: several tensors indexed by the same axes, each with strides of its own.
//
//   StridedAxes<2> axes = ...;              // row-major: the last axis varies fastest
//   for_each_offset(axes, begin, end, [&](const Offsets<2>& at) { y[at[0]] = x[at[1]]; });
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/check.h"

namespace mtf {

inline constexpr size_t kMaximalRank = 32;

template <int N>
using Offsets = std::array<int64_t, N>;

template <int N>
struct StridedAxis {
  int64_t size = 1;
  Offsets<N> strides{};
};

template <int N>
using StridedAxes = std::vector<StridedAxis<N>>;

/// Equivalent axes: those of size 1 are dropped and neighbours are joined where all operands allow it.
template <int N>
StridedAxes<N> joined(const StridedAxes<N>& axes) {
  StridedAxes<N> result;
  for (const StridedAxis<N>& axis : axes) {
    if (axis.size == 1) continue;
    bool joins = !result.empty();
    for (int n = 0; n < N && joins; ++n) joins = result.back().strides[n] == axis.strides[n] * axis.size;
    if (joins) {
      result.back() = {result.back().size * axis.size, axis.strides};
    } else {
      result.push_back(axis);
    }
  }
  MTF_CHECK(result.size() <= kMaximalRank, "a tensor with {} dimensions", result.size());
  return result;
}

template <int N>
int64_t size_of(const StridedAxes<N>& axes) {
  int64_t size = 1;
  for (const StridedAxis<N>& axis : axes) size *= axis.size;
  return size;
}

/// The offsets of the entry with row-major index `entry`.
template <int N>
Offsets<N> offsets_of(const StridedAxes<N>& axes, int64_t entry) {
  Offsets<N> at{};
  for (size_t a = axes.size(); a-- > 0;) {
    for (int n = 0; n < N; ++n) at[n] += entry % axes[a].size * axes[a].strides[n];
    entry /= axes[a].size;
  }
  return at;
}

/// Calls visit(offsets) for the entries begin .. end - 1, in row-major order.
template <int N, class Visit>
void for_each_offset(const StridedAxes<N>& axes, int64_t begin, int64_t end, Visit&& visit) {
  if (begin >= end) return;
  if (axes.empty()) return visit(Offsets<N>{});
  std::array<int64_t, kMaximalRank> index;
  int64_t rest = begin;
  for (size_t a = axes.size(); a-- > 0; rest /= axes[a].size) index[a] = rest % axes[a].size;
  Offsets<N> at = offsets_of(axes, begin);
  const StridedAxis<N>& inner = axes.back();
  while (true) {
    const int64_t count = std::min(end - begin, inner.size - index[axes.size() - 1]);
    Offsets<N> here = at;
    for (int64_t i = 0; i < count; ++i) {
      visit(here);
      for (int n = 0; n < N; ++n) here[n] += inner.strides[n];
    }
    begin += count;
    if (begin == end) return;
    for (int n = 0; n < N; ++n) at[n] -= index[axes.size() - 1] * inner.strides[n];
    index[axes.size() - 1] = 0;
    for (size_t a = axes.size() - 1; a-- > 0;) {
      for (int n = 0; n < N; ++n) at[n] += axes[a].strides[n];
      if (++index[a] < axes[a].size) break;
      for (int n = 0; n < N; ++n) at[n] -= axes[a].size * axes[a].strides[n];
      index[a] = 0;
    }
  }
}

}  // namespace mtf
