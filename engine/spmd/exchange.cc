#include "engine/spmd/exchange.h"

#include <algorithm>

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
  int64_t entries = 0;
  for (int64_t coordinate = 0; coordinate < parts; ++coordinate) {
    for (const Transfer& t : shift_transfers(parts, part, offset, wrap, coordinate)) {
      if (t.source != coordinate) entries += t.count;
    }
  }
  return entries;
}

}  // namespace mtf
