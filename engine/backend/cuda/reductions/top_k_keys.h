// Keys for entries of rows, ordered as top_k orders entries: larger values first, NaN before all, then lower
// indices. No two keys of a row are equal.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/element_walk.h"
#include "engine/backend/element.h"

namespace mtf::cuda {

/// Unsigned integers in the order of the values. The two zeros are equal.
MTF_DEVICE uint32_t in_order(int32_t value) { return static_cast<uint32_t>(value) ^ 0x80000000u; }
MTF_DEVICE uint32_t in_order(float value) {
  if (value != value) return ~0u;
  const auto bits = std::bit_cast<uint32_t>(value == 0 ? 0.0f : value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
MTF_DEVICE uint64_t in_order(double value) {
  if (value != value) return ~uint64_t{0};
  const auto bits = std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
  return bits >> 63 != 0 ? ~bits : bits | uint64_t{1} << 63;
}

/// The key of a 64-bit value.
struct WideKey {
  uint64_t value = 0;
  uint32_t rest = 0;

  MTF_DEVICE friend bool operator==(const WideKey& a, const WideKey& b) {
    return a.value == b.value && a.rest == b.rest;
  }
  MTF_DEVICE friend bool operator>(const WideKey& a, const WideKey& b) {
    return a.value > b.value || (a.value == b.value && a.rest > b.rest);
  }
};

/// Key<T>{} stands for no entry and comes after all entries.
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, WideKey, uint64_t>;

template <class T>
MTF_DEVICE Key<T> key_of(T value, int64_t index) {
  const uint32_t rest = ~static_cast<uint32_t>(index);
  if constexpr (sizeof(T) == 8) {
    return {in_order(value), rest};
  } else {
    return uint64_t{in_order(widen(value))} << 32 | rest;
  }
}

MTF_DEVICE int64_t index_of(uint64_t key) { return ~static_cast<uint32_t>(key); }
MTF_DEVICE int64_t index_of(const WideKey& key) { return ~key.rest; }

template <class K>
MTF_DEVICE K larger(const K& a, const K& b) {
  return a > b ? a : b;
}

MTF_DEVICE uint64_t shuffled_key(const Block& block, uint64_t key, int mask) {
  return block.shuffle_xor(key, mask);
}
MTF_DEVICE WideKey shuffled_key(const Block& block, const WideKey& key, int mask) {
  return {block.shuffle_xor(key.value, mask), block.shuffle_xor(key.rest, mask)};
}

template <class K>
MTF_DEVICE K largest_of_warp(const Block& block, K key) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) key = larger(key, shuffled_key(block, key, mask));
  return key;
}

/// The rows of a tensor along one axis.
struct KeyRows {
  int64_t count = 1, n = 1;
  Divisor inner;  ///< entries after the axis: the distance between a row's elements

  MTF_DEVICE int64_t offset(int64_t row) const {
    const Division at = inner(row);
    return at.quotient * n * inner.value() + at.remainder;
  }
};

/// The source of keys, and the destination of those that are found: scratch, or in the last launch the
/// outputs.
template <class T>
struct KeyFlow {
  const T* x;
  KeyRows rows;
  const Key<T>* from;  ///< null: keys are made from the entries of x
  int64_t length;      ///< number of keys of a row in `from`, or of entries
  Key<T>* to;          ///< null: writes the outputs
  T* values;
  int32_t* indices;

  MTF_DEVICE Key<T> read(int64_t row, int64_t i) const {
    if (i >= length) return {};
    if (from != nullptr) return from[row * length + i];
    return key_of(x[rows.offset(row) + i * rows.inner.value()], i);
  }
  /// Writes key number `slot` of the whole output.
  MTF_DEVICE void write(int64_t row, int64_t slot, const Key<T>& key) const {
    if (to != nullptr) {
      to[slot] = key;
    } else {
      const int64_t index = index_of(key);
      values[slot] = x[rows.offset(row) + index * rows.inner.value()];
      indices[slot] = static_cast<int32_t>(index);
    }
  }
};

}  // namespace mtf::cuda
