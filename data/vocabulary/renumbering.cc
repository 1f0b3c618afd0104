#include "data/vocabulary/renumbering.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/vocabulary/vocabulary.h"
#include "engine/base/check.h"

namespace mtf {

std::vector<int32_t> file_ids_of(const FileIds& ids) {
  const auto has = [&](int32_t id) { return id >= 0 && id < ids.size; };
  MTF_CHECK(ids.size >= 2 && has(ids.end) && ids.begin.value_or(0) < ids.size, "a file of {} ids", ids.size);
  MTF_CHECK(ids.begin != ids.end, "{} begins and ends a text", ids.end);
  std::vector<int32_t> file_ids(static_cast<size_t>(ids.size));
  std::iota(file_ids.begin(), file_ids.end(), 0);
  const auto move_to = [&](int32_t place, int32_t id) {
    std::swap(file_ids[static_cast<size_t>(place)], *std::ranges::find(file_ids, id));
  };
  if (ids.begin) {
    move_to(kPadId, *ids.begin);
  } else {
    file_ids.push_back(std::exchange(file_ids[kPadId], kNoFileId));
  }
  move_to(kEosId, ids.end);
  return file_ids;
}

}  // namespace mtf
