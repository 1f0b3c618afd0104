// The random bits of the elements of a slice, as engine/core/random.h defines them, in kernels. Like walk.h,
// this is text for every compiler.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/device/packs.h"
#include "engine/backend/cuda/device/walk.h"
#include "engine/backend/element.h"
#include "engine/core/random.h"
#if !defined(__CUDACC_RTC__)
#include "engine/backend/kernel.h"
#include "engine/backend/noise_index.h"
#endif

namespace mtf::cuda {

/// One word of a block, selected without an array in memory.
MTF_DEVICE uint32_t word_of(const PhiloxBlock& block, uint64_t element) {
  const uint32_t low = element & 1 ? block.words[1] : block.words[0];
  const uint32_t high = element & 1 ? block.words[3] : block.words[2];
  return element & 2 ? high : low;
}

/// Applies dropout to one element.
template <class T>
MTF_DEVICE T dropped(T x, uint32_t bits, uint32_t threshold, Computed<T> scale) {
  return narrow<T>(bits < threshold ? widen(x) * scale : Computed<T>{});
}

#if !defined(__CUDACC_RTC__)
/// The threshold below which bits keep their element. The rate is above 0, so the threshold fits into 32 bits
/// unless the rate is below 2^-32.
inline uint32_t dropout_threshold(double rate) {
  return static_cast<uint32_t>(std::min<uint64_t>(keep_threshold(1 - rate), UINT32_MAX));
}
#endif

/// The noise of a slice, for kernels.
class Noise {
 public:
  Noise() = default;
#if !defined(__CUDACC_RTC__)
  Noise(const NoiseIndex& index, RandomStream stream, PhiloxKey key)
      : walk_(index.walk()), stream_(stream), key_(key) {}
  /// The noise of the first output's slice; `origin` is that of NoiseIndex.
  Noise with(const KernelCall& call, int64_t origin) const {
    Noise result = *this;
    result.origin_ = origin;
    result.step_ = call.step;
    return result;
  }

  /// True if every aligned group of `count` elements begins with a Philox block, or shares one number.
  bool in_packs(int64_t count) const {
    const int64_t inner = walk_.inner_stride(0);
    if (inner == 0) return walk_.rank() <= 1 || walk_.inner_size() % count == 0;
    return origin_ % 4 == 0 && (walk_.rank() == 1 ? inner == 1 : walk_.in_packs(0, count));
  }
#endif

  /// The bits of elements first .. first + N - 1. N is 1, or a multiple of 4 for which in_packs(N) holds.
  template <int N>
  MTF_DEVICE Pack<uint32_t, N> bits(int64_t first) const {
    return bits_from<N>(element(first));
  }
  /// The noise element of an element of the slice.
  MTF_DEVICE uint64_t element(int64_t first) const {
    return static_cast<uint64_t>(origin_ + walk_.at(first)[0]);
  }
  /// The bits of N elements beginning at this noise element.
  template <int N>
  MTF_DEVICE Pack<uint32_t, N> bits_from(uint64_t element) const {
    Pack<uint32_t, N> bits;
    if (N == 1 || walk_.inner_stride(0) == 0) {
      const uint32_t word = word_of(block_of(element / 4), element);
      MTF_UNROLL(N)
      for (int i = 0; i < N; ++i) bits[i] = word;
    } else {
      MTF_UNROLL(N)
      for (int i = 0; i + 4 <= N; i += 4) {
        const PhiloxBlock block = block_of(element / 4 + i / 4);
        MTF_UNROLL(4)
        for (int k = 0; k < 4; ++k) bits[i + k] = block.words[k];
      }
    }
    return bits;
  }

 private:
  MTF_DEVICE PhiloxBlock block_of(uint64_t block) const {
    return philox(philox_counter(stream_, *step_, block), key_);
  }

  Strided<1> walk_;
  RandomStream stream_;
  PhiloxKey key_;
  int64_t origin_ = 0;
  const uint64_t* step_ = nullptr;
};

}  // namespace mtf::cuda
