#include "trainer/programs/convert/row_order.h"

#include <algorithm>
#include <iterator>

#include "data/vocabulary/renumbering.h"

namespace mtf {
namespace {

/// The number of elements for each index of the dimensions up to `axis`.
size_t inner_size(const std::vector<int64_t>& shape, size_t axis) {
  size_t size = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) size *= static_cast<size_t>(shape[i]);
  return size;
}

}  // namespace

RearrangedTensor rows_by_id(const StoredTensor& stored, const std::vector<int32_t>& file_ids,
                            std::optional<int32_t> unread) {
  const size_t width = inner_size(stored.shape, 0) * size_of(stored.dtype);
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

std::vector<int64_t> shape_of_whole(std::vector<int64_t> shape, size_t axis, const TensorPart& part) {
  shape[axis] = part.groups * part.all;
  return shape;
}

RearrangedTensor part_of(const StoredTensor& whole, size_t axis, const TensorPart& part) {
  RearrangedTensor made{{}, whole};
  made.tensor.shape[axis] = part.groups * part.count;
  const size_t output = inner_size(whole.shape, axis) * size_of(whole.dtype);
  const size_t begin = static_cast<size_t>(part.begin) * output,
               count = static_cast<size_t>(part.count) * output, all = static_cast<size_t>(part.all) * output;
  made.bytes.reserve(whole.data.size() / all * count);
  for (size_t group = 0; group < whole.data.size() / all; ++group)
    std::ranges::copy(whole.data.subspan(group * all + begin, count), std::back_inserter(made.bytes));
  made.tensor.data = made.bytes;
  return made;
}

size_t output_axis(const std::vector<int64_t>& shape, bool transposed) {
  return transposed ? 0 : shape.size() - 1;
}

HostTensor value_of_part(const Variable& variable, const StoredTensor& whole, const TensorPart& part,
                         bool transposed, const std::string& from) {
  std::vector<int64_t> shape = variable.shape.sizes();
  if (transposed) std::ranges::reverse(shape);
  const size_t axis = output_axis(shape, transposed);
  check_stored(whole, shape_of_whole(shape, axis, part), from);
  return value_of(variable, part_of(whole, axis, part).tensor, transposed, from);
}

void put_part(const WrittenTensor& tensor, size_t axis, const TensorPart& part, WrittenTensor& whole) {
  const size_t output = inner_size(whole.shape, axis);
  const size_t begin = static_cast<size_t>(part.begin) * output,
               count = static_cast<size_t>(part.count) * output, all = static_cast<size_t>(part.all) * output;
  for (size_t group = 0; group < whole.value.size() / all; ++group)
    std::copy_n(&tensor.value[group * count], count, &whole.value[group * all + begin]);
}

void add_part(const WrittenTensor& tensor, size_t axis, const TensorPart& part,
              std::vector<WrittenTensor>& tensors) {
  auto whole = std::ranges::find(tensors, tensor.name, &WrittenTensor::name);
  if (whole == tensors.end()) {
    const size_t size = tensor.value.size() / static_cast<size_t>(part.count) * static_cast<size_t>(part.all);
    whole = tensors.insert(whole,
                           {tensor.name, shape_of_whole(tensor.shape, axis, part), std::vector<float>(size)});
  }
  put_part(tensor, axis, part, *whole);
}

void order_rows(WrittenTensor& tensor, const std::vector<int32_t>& file_ids, int64_t file_rows) {
  const size_t width = inner_size(tensor.shape, 0);
  std::vector<float> ordered(static_cast<size_t>(file_rows) * width);
  for (size_t id = 0; id < file_ids.size(); ++id) {
    if (file_ids[id] == kNoFileId) continue;
    std::copy_n(&tensor.value[id * width], width, &ordered[static_cast<size_t>(file_ids[id]) * width]);
  }
  tensor.value = std::move(ordered);
  tensor.shape[0] = file_rows;
}

}  // namespace mtf
