// Rows of tensors: those of embeddings in the order of the ids here and of those of a file (data/vocabulary/renumbering.h),
// and what a variable has of a tensor that holds several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/safetensors/safetensors.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Rows or columns of a tensor in a new order.
struct RearrangedTensor {
  std::vector<std::byte> bytes;
  StoredTensor tensor;
};

/// Returns the rows that the ids here have; a vector has rows of one number. `unread`: the row of the file that stands for
/// kNoFileId; nothing: zeros.
RearrangedTensor rows_by_id(const StoredTensor& stored, const std::vector<int32_t>& file_ids,
                            std::optional<int32_t> unread);

/// Returns consecutive rows, without copying them. Each index of the dimensions before the last one has a row.
StoredTensor rows_of(const StoredTensor& stored, int64_t begin, int64_t count);

/// The outputs of one projection in a tensor with those of several: `count` of `all`, from `begin` on, in each of `groups`,
/// which stand one behind another.
struct TensorPart {
  int64_t groups = 1;
  int64_t begin = 0, count = 0, all = 0;
};

/// Returns the shape of the tensor of which one of this shape is a part. `axis`: the dimension of the outputs.
std::vector<int64_t> shape_of_whole(std::vector<int64_t> shape, size_t axis, const TensorPart& part);
RearrangedTensor part_of(const StoredTensor& whole, size_t axis, const TensorPart& part);
/// Returns the dimension of the outputs of a projection, whose tensor has this shape or is transposed.
size_t output_axis(const std::vector<int64_t>& shape, bool transposed);
/// Returns the value of a variable that is a part of the tensor of a file in `from`. Throws Error (kCheckpoint) for another
/// shape or type.
HostTensor value_of_part(const Variable& variable, const StoredTensor& whole, const TensorPart& part,
                         bool transposed, const std::string& from);
/// Puts a tensor into its place in `whole`.
void put_part(const WrittenTensor& tensor, size_t axis, const TensorPart& part, WrittenTensor& whole);
/// Puts a tensor into its place in the one of `tensors` that has its name, which is added where there is none.
void add_part(const WrittenTensor& tensor, size_t axis, const TensorPart& part,
              std::vector<WrittenTensor>& tensors);

/// Puts rows in the order of the file. A vector has rows of one number.
void order_rows(WrittenTensor& tensor, const std::vector<int32_t>& file_ids, int64_t file_rows);

}  // namespace mtf
