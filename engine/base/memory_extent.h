// A range of bytes in memory.
#pragma once

#include <cstddef>
#include <functional>

namespace mtf {

struct MemoryExtent {
  const std::byte *begin = nullptr, *end = nullptr;

  /// Becomes the smallest extent with both.
  void add(const MemoryExtent& other) {
    const std::less<> before;
    if (begin == nullptr || before(other.begin, begin)) begin = other.begin;
    if (end == nullptr || before(end, other.end)) end = other.end;
  }
  /// Also of memory that does not belong to one object.
  bool overlaps(const MemoryExtent& other) const {
    const std::less<> before;
    return before(begin, other.end) && before(other.begin, end);
  }
};

}  // namespace mtf
