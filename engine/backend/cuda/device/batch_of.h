// Several function objects of one type as one kernel. Text for every compiler, as walk.h is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device/block.h"

namespace mtf::cuda {

/// Of a BatchOf objects of `object` bytes, a multiple of 4: as many as fit into the parameters of a kernel.
struct BatchLayout {
  static constexpr size_t kMostBytes = 4000;

  constexpr explicit BatchLayout(size_t object)
      : most((kMostBytes - 16) / (object + sizeof(uint32_t))),
        begins(most * object),
        count(begins + (most + 1) * sizeof(uint32_t)),
        bytes((count + sizeof(uint32_t) + 7) / 8 * 8) {}

  size_t most;
  size_t begins, count;  ///< places of these members
  size_t bytes;
};

/// Each object has the blocks, and with them gives the bits, of a launch of its own.
template <class Body>
struct BatchOf {
  static constexpr BatchLayout kLayout{sizeof(Body)};
  static_assert(kLayout.most > 1 && alignof(Body) <= 8);

  alignas(8) unsigned char bodies[kLayout.most * sizeof(Body)];
  uint32_t begins[kLayout.most + 1];  ///< first block of each; behind the last their number
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
