// Windows of random geometry.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "engine/base/error.h"
#include "engine/ops/window.h"

namespace mtf::testing {

inline int64_t up_to(std::mt19937& random, int64_t most) {
  return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
}

/// Windows over a dimension, or onto one of a transposed convolution; the numbers of both entries and windows are multiples
/// of `parts`, so that layouts may split them.
inline Window random_window(std::mt19937& random, const std::string& name, const std::string& filter,
                            bool transposed, int64_t parts) {
  while (true) {
    WindowOptions options{.filter = filter,
                          .size = up_to(random, 5),
                          .stride = random() % 2 ? 1 : up_to(random, 3),
                          .dilation = random() % 3 ? 1 : up_to(random, 3)};
    const auto kind = random() % 4;
    if (kind == 0) options.padding = Padding::valid();
    if (kind == 1) options.padding = Padding::of(up_to(random, 5) - 2, up_to(random, 5) - 2);
    const Dimension d{name, parts * up_to(random, 5)};
    try {
      const Window w = transposed ? window_onto(d, options, up_to(random, 3) - 1) : window_over(d, options);
      if (w.entries.size % parts == 0 && w.windows.size % parts == 0 && w.entries.size <= 32) return w;
    } catch (const Error&) {
      // No window fits.
    }
  }
}

}  // namespace mtf::testing
