// Rows of tensors: those of embeddings in the order of the ids here and of those of a file (data/vocabulary/renumbering.h), and
// those of one variable in a tensor that holds several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/safetensors/safetensors.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Rows or columns of a tensor in a new order.
struct RearrangedTensor {
  std::vector<std::byte> bytes;
  StoredTensor tensor;
};

/// Returns the rows that the ids here have. `unread`: the row of the file that stands for kNoFileId; nothing: zeros.
RearrangedTensor rows_by_id(const StoredTensor& stored, const std::vector<int32_t>& file_ids,
                            std::optional<int32_t> unread);

/// Returns consecutive rows, without copying them. Each index of the dimensions before the last one has a row.
StoredTensor rows_of(const StoredTensor& stored, int64_t begin, int64_t count);

/// Puts rows in the order of the file.
void order_rows(WrittenTensor& tensor, const std::vector<int32_t>& file_ids, int64_t file_rows);

}  // namespace mtf
