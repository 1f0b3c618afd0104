#include "trainer/decode/cache_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "models/text_decoder.h"

namespace mtf {
namespace {

/// A slice of a cache in host memory.
struct CacheSlice {
  std::vector<int64_t> begin;  ///< global index of the first element along each axis
  Shape shape;
  std::byte* data;
};

/// True if two indices are equal along all axes except the batch.
bool same_columns(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end());
}

/// Returns the index of the slice that holds row `row` of the cache and the same columns as a slice at
/// `begin`, or -1. `slices` are the begins of the slices, each of `rows` rows.
int find_slice(const std::vector<std::vector<int64_t>>& slices, int64_t rows, int64_t row,
               const std::vector<int64_t>& begin) {
  const auto has_row = [&](const std::vector<int64_t>& slice) {
    return slice[0] <= row && row < slice[0] + rows && same_columns(slice, begin);
  };
  const auto found = std::ranges::find_if(slices, has_row);
  return found == slices.end() ? -1 : static_cast<int>(found - slices.begin());
}

/// Returns the begins of the slices that a process holds.
std::vector<std::vector<int64_t>> slice_begins(const Shape& shape, const Layout& layout,
                                               const HostedMesh& mesh) {
  std::vector<std::vector<int64_t>> begins;
  const HostedCopies copies = mesh.copies(layout.copies());
  for (int64_t copy = 0; copy < copies.size(); ++copy)
    begins.push_back(slice_begin(shape, layout, mesh.mesh(), copies.position(copy)));
  return begins;
}

/// True if every process holds the rows that its slices of `to` need. All processes get the same answer.
bool rows_stay(const Shape& from, const Shape& to, const Layout& layout, const HostedMesh& mesh,
               std::span<const int64_t> rows) {
  if (mesh.all_hold(layout.copies())) return true;
  const int64_t from_rows = slice_shape(from, layout, mesh.mesh())[0].size;
  const int64_t to_rows = slice_shape(to, layout, mesh.mesh())[0].size;
  for (int process = 0; process < mesh.processes(); ++process) {
    const auto sources = slice_begins(from, layout, mesh.of(process));
    for (const std::vector<int64_t>& begin : slice_begins(to, layout, mesh.of(process))) {
      for (int64_t row = begin[0]; row < std::min(begin[0] + to_rows, std::ssize(rows)); ++row) {
        if (find_slice(sources, from_rows, rows[static_cast<size_t>(row)], begin) < 0) return false;
      }
    }
  }
  return true;
}

/// Copies a row of a slice to a row of a slice with the same columns, whose memory_length, if there is one, may be
/// longer; for hypotheses the first `filled` entries along it.
void copy_row(const CacheSlice& from, int64_t from_row, const CacheSlice& to, int64_t to_row, int64_t filled,
              size_t element) {
  const std::optional<int> memory = from.shape.find(kMemoryLength);
  const int axis = memory.value_or(from.shape.rank() - 1);
  int64_t outer = 1, entry = static_cast<int64_t>(element);
  for (int a = 1; a < axis; ++a) outer *= from.shape[a].size;
  for (int a = axis + 1; a < from.shape.rank(); ++a) entry *= from.shape[a].size;
  const int64_t kept = from.shape[axis].size * entry, room = to.shape[axis].size * entry;
  const bool fills = memory && from.shape.contains(kBeam);
  const int64_t copied = fills ? std::min(kept, filled * entry) : kept;
  const std::byte* block = from.data + (from_row - from.begin[0]) * outer * kept;
  std::byte* next = to.data + (to_row - to.begin[0]) * outer * room;
  for (int64_t i = 0; i < outer; ++i, block += kept, next += room)
    std::memcpy(next, block, static_cast<size_t>(copied));
}

/// Returns this process's slices of a cache. `memory` receives copies of those in a device's memory.
std::vector<CacheSlice> slices_of(const VariableStore& store, const std::string& name,
                                  std::vector<std::vector<std::byte>>& memory) {
  std::vector<CacheSlice> slices;
  for (const VariableStore::StoredSlice& slice : store.slices(name)) {
    const bool is_host = slice.backend->is_host();
    if (!is_host) slice.on_host(memory.emplace_back());
    slices.push_back({slice.begin, slice.shape, is_host ? slice.data : memory.back().data()});
  }
  return slices;
}

void copy_rows(const std::vector<CacheSlice>& from, const std::vector<CacheSlice>& to,
               std::span<const int64_t> rows, int64_t filled, size_t element) {
  std::vector<std::vector<int64_t>> begins;
  for (const CacheSlice& slice : from) begins.push_back(slice.begin);
  for (const CacheSlice& slice : to) {
    const int64_t end = std::min(slice.begin[0] + slice.shape[0].size, std::ssize(rows));
    for (int64_t row = slice.begin[0]; row < end; ++row) {
      const int64_t source = rows[static_cast<size_t>(row)];
      const int at = find_slice(begins, from[0].shape[0].size, source, slice.begin);
      copy_row(from[static_cast<size_t>(at)], source, slice, row, filled, element);
    }
  }
}

}  // namespace

void take_cache_rows(const Layout& layout, const HostedMesh& mesh, const std::string& name,
                     std::span<const int64_t> rows, int64_t filled, const VariableStore& from,
                     VariableStore& to) {
  const Variable& old = from.variable(name);
  const Variable& variable = to.variable(name);
  const size_t element = size_of(variable.dtype);
  if (rows_stay(old.shape, variable.shape, layout, mesh, rows)) {
    std::vector<std::vector<std::byte>> old_memory, memory;
    copy_rows(slices_of(from, name, old_memory), slices_of(to, name, memory), rows, filled, element);
    for (size_t i = 0; i < memory.size(); ++i)
      to.slices(name)[i].fill([&](std::byte* values) { std::ranges::copy(memory[i], values); });
    return;
  }
  HostTensor all = from.get(name), result(variable.shape, variable.dtype);
  const std::vector<int64_t> zero(static_cast<size_t>(variable.shape.rank()));
  copy_rows({{zero, old.shape, all.bytes.data()}}, {{zero, variable.shape, result.bytes.data()}}, rows,
            filled, element);
  to.set(name, result);
}

}  // namespace mtf
