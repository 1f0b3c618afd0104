#include "engine/spmd/exchange.h"

#include <algorithm>
#include <cstdlib>

namespace mtf {

std::vector<Transfer> shift_transfers(int64_t parts, int64_t part, int64_t offset, bool wrap,
                                      int64_t coordinate) {
  const int64_t size = parts * part;
  std::vector<Transfer> transfers;
  for (int64_t begin = 0; begin < part;) {
    int64_t from = coordinate * part + begin - offset;
    if (wrap) from = (from % size + size) % size;
    int64_t count = part - begin;
    if (from < 0) {
      begin += std::min(count, -from);
      continue;
    }
    if (from >= size) break;
    count = std::min(count, part - from % part);
    transfers.push_back({from / part, from % part, begin, count});
    begin += count;
  }
  return transfers;
}

int64_t exchanged_entries(int64_t parts, int64_t part, int64_t offset, bool wrap) {
  const int64_t size = parts * part;
  const auto overlap = [&](int64_t by) {
    return std::max<int64_t>(0, part - by);
  };  // entries of a part that stay in it after a move by `by`
  if (!wrap) {
    const int64_t by = std::min(std::abs(offset), size);
    return size - by - parts * overlap(by);
  }
  const int64_t by = (offset % size + size) % size;
  return size - parts * (overlap(by) + (by > 0 ? overlap(size - by) : 0));
}

}  // namespace mtf
