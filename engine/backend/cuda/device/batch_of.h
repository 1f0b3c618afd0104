// BatchOf runs several function objects of one type as one kernel. Like walk.h, this is text for every
// compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device/block.h"

namespace mtf::cuda {

/// The layout of a BatchOf objects of `object` bytes, a multiple of 4. It holds as many as fit into the
/// parameters of a kernel.
struct BatchLayout {
  static constexpr size_t kMostBytes = 4000;

  constexpr explicit BatchLayout(size_t object)
      : most((kMostBytes - 16) / (object + sizeof(uint32_t))),
        begins(most * object),
        count(begins + (most + 1) * sizeof(uint32_t)),
        bytes((count + sizeof(uint32_t) + 7) / 8 * 8) {}

  size_t most;
  size_t begins, count;  ///< offsets of these members
  size_t bytes;
};

/// Each object gets the same blocks as in a launch of its own, and therefore gives the same bits.
template <class Body>
struct BatchOf {
  static constexpr BatchLayout kLayout{sizeof(Body)};
  static_assert(kLayout.most > 1 && alignof(Body) <= 8);

  alignas(8) unsigned char bodies[kLayout.most * sizeof(Body)];
  uint32_t begins[kLayout.most + 1];  ///< first block of each object; after the last one the total
  uint32_t count;

  MTF_DEVICE void operator()(const Block& block) const {
    const auto index = static_cast<uint32_t>(block.index());
    uint32_t at = 0;
    for (uint32_t end = count; end - at > 1;) {
      const uint32_t middle = (at + end) / 2;
      (index < begins[middle] ? end : at) = middle;
    }
    const Body& body = *reinterpret_cast<const Body*>(bodies + at * sizeof(Body));
    body(block.as(index - begins[at], begins[at + 1] - begins[at]));
  }
};

}  // namespace mtf::cuda
