#include "engine/backend/block_copy.h"

#include <cstring>

namespace mtf {

void copy_blocks_on_host(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    const auto bytes = static_cast<size_t>(copy.length);
    for (int64_t row = 0; row < copy.rows; ++row) {
      for (int64_t run = 0; run < copy.runs; ++run) {
        std::byte* const to = copy.to + row * copy.to_row + run * copy.to_run;
        if (copy.from == nullptr) {
          std::memset(to, 0, bytes);
        } else {
          std::memcpy(to, copy.from + row * copy.from_row + run * copy.from_run, bytes);
        }
      }
    }
  }
}

}  // namespace mtf
