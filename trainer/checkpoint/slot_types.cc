#include "trainer/checkpoint/slot_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "engine/core/convert_elements.h"
#include "engine/core/slot_code.h"
#include "trainer/optimizer/slot_blocks.h"

namespace mtf {
namespace {

/// A part of a saved slot, by the index of its first element and its sizes along each axis.
struct Part {
  std::vector<int64_t> begin, size;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t n : size) count *= n;
    return count;
  }
  int64_t row() const { return size.back(); }
};

Part part_of(const VariableStore::StoredSlice& slice) { return {slice.begin, slice.shape.sizes()}; }

template <class Code>
void decode(const std::vector<std::byte>& codes, const std::vector<float>& largest, int64_t row,
            std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto code = std::bit_cast<Code>(codes[i]);
    values[i] = decode_slot(code, slot_scale(largest[i / static_cast<size_t>(row)]));
  }
}

/// The numbers of a part of a saved slot, whatever its type.
std::vector<float> numbers(CheckpointReader& reader, const CheckpointVariable& saved, const Part& part) {
  std::vector<float> values(static_cast<size_t>(part.elements()));
  std::vector<std::byte> stored(values.size() * size_of(saved.dtype));
  reader.read(saved.name, part.begin, part.size, stored.data());
  if (!is_slot_code(saved.dtype)) {
    convert_elements(stored.data(), saved.dtype, reinterpret_cast<std::byte*>(values.data()), DType::kFloat32,
                     part.elements());
    return values;
  }
  std::vector<float> largest(values.size() / static_cast<size_t>(part.row()));
  reader.read(slot_blocks_name(saved.name), std::span(part.begin).first(part.begin.size() - 1),
              std::span(part.size).first(part.size.size() - 1), reinterpret_cast<std::byte*>(largest.data()));
  saved.dtype == DType::kUInt8 ? decode<uint8_t>(stored, largest, part.row(), values)
                               : decode<int8_t>(stored, largest, part.row(), values);
  return values;
}

/// The largest magnitude of each row of the saved slot; `rows` has no last axis or a part of it.
std::vector<float> largest_magnitudes(CheckpointReader& reader, const CheckpointVariable& saved, Part rows) {
  const size_t axes = static_cast<size_t>(saved.shape.rank());
  rows.begin.resize(axes);
  rows.size.resize(axes);
  rows.begin.back() = 0;
  rows.size.back() = saved.shape[saved.shape.rank() - 1].size;
  const std::vector<float> values = numbers(reader, saved, rows);
  std::vector<float> largest(values.size() / static_cast<size_t>(rows.row()));
  for (size_t i = 0; i < values.size(); ++i) {
    float& of_row = largest[i / static_cast<size_t>(rows.row())];
    of_row = std::max(of_row, std::abs(values[i]));
  }
  return largest;
}

template <class Code>
void encode(const std::vector<float>& values, const std::vector<float>& largest, int64_t row, std::byte* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    const SlotScale scale = slot_scale(largest[i / static_cast<size_t>(row)]);
    to[i] = std::bit_cast<std::byte>(encode_slot<Code>(values[i], scale, kRoundToNearest));
  }
}

}  // namespace

bool restore_slot_codes(CheckpointReader& reader, const Variable& slot, VariableStore& variables) {
  const CheckpointVariable* saved = reader.find(slot.name);
  if (saved == nullptr) {
    const std::string suffix = kSlotBlocksSuffix;
    if (!slot.name.ends_with(suffix)) return false;
    saved = reader.find(slot.name.substr(0, slot.name.size() - suffix.size()));
    if (saved == nullptr || saved->shape.rank() != slot.shape.rank() + 1) return false;
    for (const VariableStore::StoredSlice& slice : variables.slices(slot.name)) {
      const std::vector<float> largest = largest_magnitudes(reader, *saved, part_of(slice));
      slice.fill([&](std::byte* to) { std::memcpy(to, largest.data(), largest.size() * sizeof(float)); });
    }
    return true;
  }
  if (saved->shape != slot.shape || is_slot_code(saved->dtype) == is_slot_code(slot.dtype)) return false;
  for (const VariableStore::StoredSlice& slice : variables.slices(slot.name)) {
    const Part part = part_of(slice);
    const std::vector<float> values = numbers(reader, *saved, part);
    if (!is_slot_code(slot.dtype)) {
      slice.fill([&](std::byte* to) {
        convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kFloat32, to, slot.dtype,
                         part.elements());
      });
      continue;
    }
    const std::vector<float> largest = largest_magnitudes(reader, *saved, part);
    slice.fill([&](std::byte* to) {
      slot.dtype == DType::kUInt8 ? encode<uint8_t>(values, largest, part.row(), to)
                                  : encode<int8_t>(values, largest, part.row(), to);
    });
  }
  return true;
}

}  // namespace mtf
