// How kernels store what they compute as bfloat16: rounded at random, with the bits of engine/core/random.h.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "engine/backend/cuda/device/noise.h"
#include "engine/backend/element.h"
#include "engine/core/stochastic_rounding.h"

namespace mtf::cuda {

/// Stores values of type S. Those that are not bfloat16 are stored as they are, without random bits.
template <class S>
class SlotRounding {
 public:
  SlotRounding() = default;
  template <int N>
  MTF_DEVICE Pack<uint32_t, N> bits(int64_t /*first*/, int /*count*/) const {
    return {};
  }
  static MTF_DEVICE S stored(Computed<S> value, uint32_t /*bits*/) { return value; }
};

template <>
class SlotRounding<BFloat16> {
 public:
  SlotRounding() = default;
  /// The rounding of a slice that is stored in packs of N elements.
  SlotRounding(const Noise& noise, int64_t elements_of_pack)
      : noise_(noise), in_packs_(noise.in_packs(elements_of_pack)) {}

  /// The random bits of the first `count` elements of the pack that begins at element `first`.
  template <int N>
  MTF_DEVICE Pack<uint32_t, N> bits(int64_t first, int count) const {
    if (in_packs_) return noise_.bits<N>(first);
    Pack<uint32_t, N> bits{};
    MTF_UNROLL(N)
    for (int i = 0; i < N; ++i) {
      if (i < count) bits[i] = noise_.bits<1>(first + i)[0];
    }
    return bits;
  }
  static MTF_DEVICE BFloat16 stored(float value, uint32_t bits) { return round_stochastically(value, bits); }

 private:
  Noise noise_;
  bool in_packs_ = false;
};

/// Makes the rounding of each call of a kernel whose first output has the slots' shape and layout.
template <class S>
class PreparedRounding {
 public:
  /// `source` is given if S is bfloat16.
  PreparedRounding(const KernelContext& context, const std::optional<RandomSource>& source)
      : index_(context.outputs[0], context.outputs[0].global, {}, source ? source->first_element : 0) {
    if (source) noise_ = Noise(index_, RandomStream::kRounding, random_key(source->name, context.seed));
  }

  SlotRounding<S> of(const KernelCall& call, int64_t elements_of_pack) const {
    if constexpr (std::is_same_v<S, BFloat16>) {
      return {noise_.with(call, index_.origin(call.outputs[0].begin, call.iteration)), elements_of_pack};
    } else {
      return {};
    }
  }

 private:
  NoiseIndex index_;
  Noise noise_;
};

}  // namespace mtf::cuda
