// Copies elements without interpreting them, as words of up to 16 bytes, as wide as sizes, strides and
// alignment allow.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "engine/backend/cuda/device/element_walk.h"

namespace mtf::cuda {

/// Calls visit(Word{}) for the unsigned type of `bytes` bytes: 1, 2, 4, 8 or 16.
template <class Visit>
MTF_HOST_DEVICE void with_word(int64_t bytes, const Visit& visit) {
  switch (bytes) {
    case 16:
      return visit(Pack<uint64_t, 2>{});
    case 8:
      return visit(uint64_t{});
    case 4:
      return visit(uint32_t{});
    case 2:
      return visit(uint16_t{});
    default:
      return visit(uint8_t{});
  }
}

/// The largest power of two up to 16 that divides all sizes.
inline int64_t common_word(std::initializer_list<int64_t> sizes) {
  uint64_t bits = kPackBytes;
  for (int64_t size : sizes) bits |= static_cast<uint64_t>(size);
  return int64_t{1} << std::countr_zero(bits);
}

/// Iteration over words instead of elements.
template <int N>
struct WordWalk {
  StridedAxes<N> axes;   ///< strides of copied operands in words
  int64_t word = 1;      ///< bytes of a word
  int64_t elements = 1;  ///< elements of a word

  /// Converts a row-major walk over elements of `bytes` bytes. If bit n of `copied` is set, operand n holds
  /// the elements of a word contiguously; other operands (ids) have one entry for all of them. `strides` are
  /// further strides of copied operands.
  WordWalk(const StridedAxes<N>& elements_walk, unsigned copied, int64_t bytes,
           std::initializer_list<int64_t> strides = {})
      : axes(joined(elements_walk)), word(bytes) {
    if (axes.empty()) return;
    for (int n = 0; n < N; ++n) {
      if (axes.back().strides[n] != (copied >> n & 1)) return;
    }
    int64_t common = common_word(strides);
    common = std::min(common, common_word({axes.back().size}));
    for (size_t a = 0; a + 1 < axes.size(); ++a) {
      for (int n = 0; n < N; ++n) {
        if (copied >> n & 1) common = std::min(common, common_word({axes[a].strides[n]}));
      }
    }
    elements = std::min(common, kPackBytes / bytes);
    word = elements * bytes;
    axes.back().size /= elements;
    for (size_t a = 0; a + 1 < axes.size(); ++a) {
      for (int n = 0; n < N; ++n) {
        if (copied >> n & 1) axes[a].strides[n] /= elements;
      }
    }
  }
};

/// Calls store(i, load(i)) for the entries first, first + stride, ... below `count`. Several loads are in
/// flight at once, so `store` must not change what a later `load` of the same thread reads.
template <class Load, class Store>
MTF_DEVICE void move_entries(int64_t first, int64_t stride, int64_t count, const Load& load,
                             const Store& store) {
  constexpr int kAtOnce = 4;
  for (int64_t i = first; i < count; i += kAtOnce * stride) {
    decltype(load(i)) values[kAtOnce];
    MTF_UNROLL(kAtOnce)
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * stride < count) values[n] = load(i + n * stride);
    }
    MTF_UNROLL(kAtOnce)
    for (int n = 0; n < kAtOnce; ++n) {
      if (i + n * stride < count) store(i + n * stride, values[n]);
    }
  }
}
template <class Load, class Store>
MTF_DEVICE void move_entries(const Block& block, int64_t count, const Load& load, const Store& store) {
  move_entries(block.first(), block.stride(), count, load, store);
}

}  // namespace mtf::cuda
