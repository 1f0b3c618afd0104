// A range of bytes in memory.
#pragma once

#include <cstddef>
#include <functional>

namespace mtf {

struct MemoryExtent {
  const std::byte *begin = nullptr, *end = nullptr;

  /// Also of memory that does not belong to one object.
  bool overlaps(const MemoryExtent& other) const {
    const std::less<> before;
    return before(begin, other.end) && before(other.begin, end);
  }
};

}  // namespace mtf
