#include "trainer/programs/convert/row_order.h"

#include <algorithm>

#include "data/vocabulary/renumbering.h"

namespace mtf {

RearrangedTensor rows_by_id(const StoredTensor& stored, const std::vector<int32_t>& file_ids,
                            std::optional<int32_t> unread) {
  const size_t width = static_cast<size_t>(stored.shape[1]) * size_of(stored.dtype);
  RearrangedTensor made{std::vector<std::byte>(file_ids.size() * width), stored};
  for (size_t id = 0; id < file_ids.size(); ++id) {
    const std::optional<int32_t> row = file_ids[id] == kNoFileId ? unread : file_ids[id];
    if (row)
      std::ranges::copy(stored.data.subspan(static_cast<size_t>(*row) * width, width),
                        &made.bytes[id * width]);
  }
  made.tensor.shape[0] = std::ssize(file_ids);
  made.tensor.data = made.bytes;
  return made;
}

StoredTensor rows_of(const StoredTensor& stored, int64_t begin, int64_t count) {
  const size_t width = static_cast<size_t>(stored.shape.back()) * size_of(stored.dtype);
  StoredTensor rows = stored;
  rows.shape = {count, stored.shape.back()};
  rows.data = stored.data.subspan(static_cast<size_t>(begin) * width, static_cast<size_t>(count) * width);
  return rows;
}

void order_rows(WrittenTensor& tensor, const std::vector<int32_t>& file_ids, int64_t file_rows) {
  const auto width = static_cast<size_t>(tensor.shape[1]);
  std::vector<float> ordered(static_cast<size_t>(file_rows) * width);
  for (size_t id = 0; id < file_ids.size(); ++id) {
    if (file_ids[id] == kNoFileId) continue;
    std::copy_n(&tensor.value[id * width], width, &ordered[static_cast<size_t>(file_ids[id]) * width]);
  }
  tensor.value = std::move(ordered);
  tensor.shape[0] = file_rows;
}

}  // namespace mtf
