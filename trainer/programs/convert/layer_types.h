// Which layers of a model have local attention, as config.json lists them, and the part of such a list that repeats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Returns what `layer_types` says of each layer: whether its attention is local. Throws Error (kCheckpoint).
std::vector<bool> parse_layer_types(const HuggingFaceJson& json, int64_t layers);

/// Shortens a list to the part that repeats.
template <class Kind>
void reduce_to_pattern(std::vector<Kind>& list) {
  const size_t all = list.size();
  for (size_t length = 1; length < all; ++length) {
    if (all % length != 0 ||
        !std::equal(list.begin() + static_cast<ptrdiff_t>(length), list.end(), list.begin()))
      continue;
    list.resize(length);
    return;
  }
}

}  // namespace mtf
