// Index arithmetic of kernels: division by numbers that are known when a kernel is prepared, walks over
// strided operands, and packs of elements that are loaded and stored at once.
//
//   const Strided<2> walk(axes);    // host; passed by value
//   for (int64_t i = block.first(); i < walk.size(); i += block.stride()) {
//     const Offsets<2> at = walk.at(i);
//     y[at[1]] = x[at[0]];
//   }
//
//   launch(over_packs<kPack<T>>(n), ...);
//   for_each_pack<kPack<T>>(block, n, [&](int64_t first, int count) {
//     Pack<T, kPack<T>> pack = load<kPack<T>>(x + first, count);  // x, y: aligned to 16 bytes
//     store(y + first, pack, count);
//   });
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "engine/backend/cpu/strided.h"
#include "engine/backend/cuda/block.h"
#include "engine/backend/cuda/launch.h"
#include "engine/core/check.h"

namespace mtf::cuda {

/// The upper 64 bits of a product.
MTF_HOST_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

struct Division {
  int64_t quotient, remainder;
};

/// Division by a number d known on the host: for W-bit n < 2^(W-1), n / d = (n + (m n >> W)) >> s, where 2^s
/// is the least power of two that is not below d and m = floor(2^W (2^s - d) / d) + 1 (Granlund and
/// Montgomery, Division by invariant integers using multiplication, PLDI 1994). W is 32 where dividends and
/// divisor allow it, else 64.
class Divisor {
 public:
  Divisor() = default;
  /// Of dividends 0 <= n < bound.
  Divisor(int64_t divisor, int64_t bound)
      : divisor_(divisor), shift_(static_cast<int>(std::bit_width(static_cast<uint64_t>(divisor) - 1))) {
    constexpr int64_t kHalf = int64_t{1} << 31;
    MTF_CHECK(divisor > 0, "division by {}", divisor);
    wide_ = bound > kHalf || divisor > kHalf;
    const auto above =
        static_cast<unsigned __int128>((uint64_t{1} << shift_) - static_cast<uint64_t>(divisor));
    multiplier_ = static_cast<uint64_t>((above << (wide_ ? 64 : 32)) / static_cast<uint64_t>(divisor)) + 1;
  }

  MTF_HOST_DEVICE int64_t value() const { return divisor_; }
  MTF_HOST_DEVICE Division operator()(int64_t n) const {
    if (wide_) {
      const auto dividend = static_cast<uint64_t>(n);
      const auto quotient = static_cast<int64_t>((dividend + multiply_high(dividend, multiplier_)) >> shift_);
      return {quotient, n - quotient * divisor_};
    }
    const auto dividend = static_cast<uint32_t>(n);
    const auto high = static_cast<uint32_t>((uint64_t{dividend} * static_cast<uint32_t>(multiplier_)) >> 32);
    const uint32_t quotient = (dividend + high) >> shift_;
    return {quotient, dividend - quotient * static_cast<uint32_t>(divisor_)};
  }

 private:
  int64_t divisor_ = 1;
  uint64_t multiplier_ = 1;
  int shift_ = 0;
  bool wide_ = false;
};

/// Axes of a walk, after joining.
inline constexpr int kMostAxes = 12;

/// A walk over N strided operands (StridedAxes) as a kernel sees it.
template <int N>
class Strided {
 public:
  Strided() = default;
  explicit Strided(const StridedAxes<N>& axes) : size_(size_of(axes)) {
    const StridedAxes<N> walk = joined(axes);
    MTF_CHECK(walk.size() <= kMostAxes, "a walk over {} axes that cannot be joined", walk.size());
    for (const StridedAxis<N>& axis : walk) {
      axes_[rank_].size = Divisor(axis.size, size_);
      for (int n = 0; n < N; ++n) axes_[rank_].strides[n] = axis.strides[n];
      ++rank_;
    }
  }

  MTF_HOST_DEVICE int64_t size() const { return size_; }
  MTF_HOST_DEVICE int rank() const { return rank_; }
  /// Along the fastest axis; 1 and 0 where there is none.
  MTF_HOST_DEVICE int64_t inner_size() const { return rank_ == 0 ? 1 : axes_[rank_ - 1].size.value(); }
  MTF_HOST_DEVICE int64_t inner_stride(int operand) const {
    return rank_ == 0 ? 0 : axes_[rank_ - 1].strides[operand];
  }
  /// Offsets of the entry with row-major index `entry`.
  MTF_HOST_DEVICE Offsets<N> at(int64_t entry) const {
    Offsets<N> offsets{};
    for (int a = rank_ - 1; a > 0; --a) {
      const Division division = axes_[a].size(entry);
      for (int n = 0; n < N; ++n) offsets[n] += division.remainder * axes_[a].strides[n];
      entry = division.quotient;
    }
    if (rank_ > 0) {
      for (int n = 0; n < N; ++n) offsets[n] += entry * axes_[0].strides[n];
    }
    return offsets;
  }
  /// That of one operand.
  MTF_HOST_DEVICE int64_t offset(int64_t entry, int operand) const {
    int64_t offset = 0;
    for (int a = rank_ - 1; a >= 0; --a) {
      const Division division = axes_[a].size(entry);
      offset += division.remainder * axes_[a].strides[operand];
      entry = division.quotient;
    }
    return offset;
  }
  /// At every multiple of `count`, that many elements of the operand follow each other, from a multiple of
  /// `count` on.
  bool in_packs(int operand, int64_t count) const {
    if (inner_stride(operand) != 1 || inner_size() % count != 0) return false;
    for (int a = 0; a < rank_ - 1; ++a) {
      if (axes_[a].strides[operand] % count != 0) return false;
    }
    return true;
  }

 private:
  struct Axis {
    Divisor size;
    int64_t strides[N];
  };
  int rank_ = 0;
  int64_t size_ = 1;
  Axis axes_[kMostAxes];
};

/// Bytes that a thread loads or stores at once.
inline constexpr int kPackBytes = 16;

/// Elements of a pack when a thread works on the same elements of several operands, the widest of which is
/// loaded at once.
template <class... T>
inline constexpr int kPack = kPackBytes / static_cast<int>(std::max({sizeof(T)...}));

template <class T, int N>
struct alignas(std::min<size_t>(kPackBytes, sizeof(T) * N)) Pack {
  T values[N];

  MTF_HOST_DEVICE T& operator[](int i) { return values[i]; }
  MTF_HOST_DEVICE const T& operator[](int i) const { return values[i]; }
};

/// `data`: aligned as the pack is.
template <int N, class T>
MTF_HOST_DEVICE Pack<T, N> load(const T* data) {
  return *reinterpret_cast<const Pack<T, N>*>(data);
}
template <class T, int N>
MTF_HOST_DEVICE void store(T* data, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(data) = pack;
}

/// The first `count` elements of a pack; the others are zeros, and are not written.
template <int N, class T>
MTF_HOST_DEVICE Pack<T, N> load(const T* data, int count) {
  if (count == N) return load<N>(data);
  Pack<T, N> pack{};
  MTF_UNROLL(N)
  for (int i = 0; i < N; ++i) {
    if (i < count) pack[i] = data[i];
  }
  return pack;
}
template <class T, int N>
MTF_HOST_DEVICE void store(T* data, const Pack<T, N>& pack, int count) {
  if (count == N) return store(data, pack);
  MTF_UNROLL(N)
  for (int i = 0; i < N; ++i) {
    if (i < count) data[i] = pack[i];
  }
}

/// visit(first, count) for the packs of `size` elements: count is N, and less in the last one.
template <int N, class Visit>
MTF_DEVICE void for_each_pack(const Block& block, int64_t size, const Visit& visit) {
  const int64_t packs = (size + N - 1) / N;
  for (int64_t pack = block.first(); pack < packs; pack += block.stride()) {
    visit(pack * N, static_cast<int>(std::min<int64_t>(N, size - pack * N)));
  }
}
/// visit(first, pack) for parts of `size` elements: whole packs (none unless `packs`), and each of the other
/// elements.
///
///   for_each_part<kPack<T>>(block, n, true, [&](int64_t first, bool pack) {
///     pack ? copy<kPack<T>>(first) : copy<1>(first);
///   });
///   template <int N> void copy(int64_t first) const { store(y + first, load<N>(x + first)); }
template <int N, class Visit>
MTF_DEVICE void for_each_part(const Block& block, int64_t size, bool packs, const Visit& visit) {
  const int64_t whole = packs ? size / N : 0, parts = whole + (size - whole * N);
  for (int64_t part = block.first(); part < parts; part += block.stride())
    visit(part < whole ? part * N : whole * N + (part - whole), part < whole);
}
/// A grid for either.
template <int N>
LaunchShape over_packs(int64_t size) {
  return over((size + N - 1) / N, 1);
}

}  // namespace mtf::cuda
