// Division by numbers that are known when a kernel is prepared, and iteration over strided operands. This is
// text for every compiler: the host makes these objects, and generated kernels read them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/backend/cuda/device/block.h"
#include "engine/backend/cuda/device/packs.h"
#if defined(__CUDACC_RTC__)
#include <array>
#else
#include "engine/backend/strided.h"
#include "engine/base/check.h"
#endif

namespace mtf {
#if defined(__CUDACC_RTC__)
template <int N>
using Offsets = std::array<int64_t, N>;
#endif

namespace cuda {

/// The upper 64 bits of the product.
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

/// Division by a number d that is known on the host. For W-bit n < 2^(W-1), n / d = (n + (m n >> W)) >> s,
/// where 2^s is the least power of two that is not below d and m = floor(2^W (2^s - d) / d) + 1 (Granlund and
/// Montgomery, Division by invariant integers using multiplication, PLDI 1994). W is 32 if dividends and
/// divisor allow it, else 64.
class Divisor {
 public:
  Divisor() = default;
#if !defined(__CUDACC_RTC__)
  /// Divides dividends 0 <= n < bound.
  Divisor(int64_t divisor, int64_t bound)
      : divisor_(divisor), shift_(static_cast<int>(std::bit_width(static_cast<uint64_t>(divisor) - 1))) {
    constexpr int64_t kHalf = int64_t{1} << 31;
    MTF_CHECK(divisor > 0, "division by {}", divisor);
    wide_ = bound > kHalf || divisor > kHalf;
    const auto above =
        static_cast<unsigned __int128>((uint64_t{1} << shift_) - static_cast<uint64_t>(divisor));
    multiplier_ = static_cast<uint64_t>((above << (wide_ ? 64 : 32)) / static_cast<uint64_t>(divisor)) + 1;
  }
#endif

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

/// The most axes of a walk, after joining.
inline constexpr int kMostAxes = 12;

/// Iteration over N strided operands (StridedAxes) in kernels.
template <int N>
class Strided {
 public:
  Strided() = default;
#if !defined(__CUDACC_RTC__)
  explicit Strided(const StridedAxes<N>& axes) : size_(size_of(axes)) {
    const StridedAxes<N> walk = joined(axes);
    MTF_CHECK(walk.size() <= kMostAxes, "a walk over {} axes that cannot be joined", walk.size());
    for (const StridedAxis<N>& axis : walk) {
      axes_[rank_].size = Divisor(axis.size, size_);
      for (int n = 0; n < N; ++n) axes_[rank_].strides[n] = axis.strides[n];
      ++rank_;
    }
  }
#endif

  MTF_HOST_DEVICE int64_t size() const { return size_; }
  MTF_HOST_DEVICE int rank() const { return rank_; }
  /// Size and stride of the fastest axis; 1 and 0 if there is none.
  MTF_HOST_DEVICE int64_t inner_size() const { return rank_ == 0 ? 1 : axes_[rank_ - 1].size.value(); }
  MTF_HOST_DEVICE int64_t inner_stride(int operand) const {
    return rank_ == 0 ? 0 : axes_[rank_ - 1].strides[operand];
  }
  /// The offsets of the entry with row-major index `entry`.
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
  /// The offset of one operand.
  MTF_HOST_DEVICE int64_t offset(int64_t entry, int operand) const {
    int64_t offset = 0;
    for (int a = rank_ - 1; a >= 0; --a) {
      const Division division = axes_[a].size(entry);
      offset += division.remainder * axes_[a].strides[operand];
      entry = division.quotient;
    }
    return offset;
  }
  /// True if at every multiple of `count`, that many elements of the operand are contiguous, beginning at a
  /// multiple of `count`.
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

/// Loads the elements of an operand for N elements of the walk; `at` is the one for the first of them. N is
/// 1, or a number for which they are contiguous or all the same.
template <int N, class T>
MTF_HOST_DEVICE Pack<T, N> load_along(const Strided<1>& walk, const T* at) {
  if (walk.inner_stride(0) != 0) return load<N>(at);
  Pack<T, N> pack;
  const T value = *at;
  MTF_UNROLL(N)
  for (int i = 0; i < N; ++i) pack[i] = value;
  return pack;
}

}  // namespace cuda
}  // namespace mtf
