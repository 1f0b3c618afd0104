#include "trainer/decode/cache_rows.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/memory_extent.h"
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
               std::span<const MovedRow> rows) {
  if (mesh.all_hold(layout.copies())) return true;
  const int64_t from_rows = slice_shape(from, layout, mesh.mesh())[0].size;
  const int64_t to_rows = slice_shape(to, layout, mesh.mesh())[0].size;
  for (int process = 0; process < mesh.processes(); ++process) {
    const auto sources = slice_begins(from, layout, mesh.of(process));
    for (const std::vector<int64_t>& begin : slice_begins(to, layout, mesh.of(process))) {
      for (const MovedRow& row : rows) {
        const bool is_here = begin[0] <= row.to && row.to < begin[0] + to_rows;
        if (is_here && find_slice(sources, from_rows, row.from, begin) < 0) return false;
      }
    }
  }
  return true;
}

/// The bytes of a row of a slice: blocks with the entries along memory_length, if there is one, or else with all.
struct RowBlocks {
  RowBlocks() = default;
  RowBlocks(const Shape& from, const Shape& to, int64_t filled, size_t element) {
    const std::optional<int> memory = from.find(kMemoryLength);
    const int axis = memory.value_or(from.rank() - 1);
    int64_t entry = static_cast<int64_t>(element);
    for (int a = 1; a < axis; ++a) blocks *= from[a].size;
    for (int a = axis + 1; a < from.rank(); ++a) entry *= from[a].size;
    from_bytes = from[axis].size * entry;
    to_bytes = to[axis].size * entry;
    copied = std::min(from_bytes, to_bytes);
    if (memory && from.contains(kBeam)) copied = std::min(copied, filled * entry);
  }
  int64_t blocks = 1;
  int64_t from_bytes = 0, to_bytes = 0;  ///< from one block to the next
  int64_t copied = 0;                    ///< at the begin of each
};

struct RowCopy {
  const std::byte* from;
  std::byte* to;
};

void copy_blocks(int64_t blocks, int64_t bytes, const std::byte* from, int64_t from_stride, std::byte* to,
                 int64_t to_stride) {
  for (int64_t i = 0; i < blocks; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
}

/// Returns this process's slices of a cache, where they are.
std::vector<CacheSlice> slices_of(const VariableStore& store, const std::string& name) {
  std::vector<CacheSlice> slices;
  for (const VariableStore::StoredSlice& slice : store.slices(name))
    slices.push_back({slice.begin, slice.shape, slice.data});
  return slices;
}

/// Lets slices that are in a device's memory refer to copies in `memory`.
void copy_to_host(const VariableStore& store, const std::string& name, std::vector<CacheSlice>& slices,
                  std::vector<std::vector<std::byte>>& memory) {
  const std::vector<VariableStore::StoredSlice> stored = store.slices(name);
  for (size_t i = 0; i < slices.size(); ++i) {
    if (stored[i].backend->is_host()) continue;
    stored[i].on_host(memory.emplace_back());
    slices[i].data = memory.back().data();
  }
}

/// The memory from the first slice of a cache to its last.
MemoryExtent extent_of(const VariableStore& store, const std::string& name) {
  MemoryExtent extent;
  for (const VariableStore::StoredSlice& slice : store.slices(name)) {
    const std::byte *begin = slice.data, *end = begin + slice.bytes;
    extent.begin = extent.begin == nullptr ? begin : std::min(extent.begin, begin, std::less<>());
    extent.end = std::max(extent.end, end, std::less<>());
  }
  return extent;
}

/// The moves of the rows of one cache.
class CacheMoves {
 public:
  CacheMoves(const ProgramVariable& variable, const HostedMesh& mesh, std::span<const MovedRow> rows,
             int64_t filled, const VariableStore& from, VariableStore& to)
      : to_(to), name_(variable.variable.name) {
    const Shape &old = from.variable(name_).shape, &shape = to.variable(name_).shape;
    const DType dtype = variable.variable.dtype;
    gathers_ = !rows_stay(old, shape, variable.layout, mesh, rows);
    if (gathers_) {
      gathered_ = from.get(name_);
      result_ = to.get(name_);
      const std::vector<int64_t> zero(static_cast<size_t>(shape.rank()));
      blocks_ = RowBlocks(old, shape, filled, size_of(dtype));
      add({{zero, old, gathered_.bytes.data()}}, {{zero, shape, result_.bytes.data()}}, rows);
      return;
    }
    std::vector<CacheSlice> sources = slices_of(from, name_), results = slices_of(to, name_);
    if (sources.empty()) return;  // the positions of another process have the cache
    blocks_ = RowBlocks(sources[0].shape, results[0].shape, filled, size_of(dtype));
    add(sources, results, rows);
    if (copies_.empty()) return;
    copy_to_host(from, name_, sources, from_device_);
    copy_to_host(to, name_, results, to_device_);
    if (from_device_.empty()) return;
    copies_.clear();
    add(sources, results, rows);
  }

  /// Copies the rows to memory of their own, unless they are there.
  void save() {
    if (copies_.empty() || gathers_ || !from_device_.empty()) return;
    const int64_t bytes = blocks_.blocks * blocks_.copied;
    saved_.resize(copies_.size() * static_cast<size_t>(bytes));
    std::byte* next = saved_.data();
    for (RowCopy& row : copies_) {
      copy_blocks(blocks_.blocks, blocks_.copied, row.from, blocks_.from_bytes, next, blocks_.copied);
      row.from = std::exchange(next, next + bytes);
    }
    blocks_.from_bytes = blocks_.copied;
  }
  /// True if rows that are read lie between the first and the last one that is written.
  bool overlap() const {
    if (copies_.empty()) return false;
    const auto [from_low, from_high] = std::ranges::minmax(copies_, std::less<>(), &RowCopy::from);
    const auto [to_low, to_high] = std::ranges::minmax(copies_, std::less<>(), &RowCopy::to);
    const MemoryExtent read{from_low.from, from_high.from + blocks_.blocks * blocks_.from_bytes};
    return read.overlaps({to_low.to, to_high.to + blocks_.blocks * blocks_.to_bytes});
  }
  void write() {
    for (const RowCopy& row : copies_)
      copy_blocks(blocks_.blocks, blocks_.copied, row.from, blocks_.from_bytes, row.to, blocks_.to_bytes);
    for (size_t i = 0; i < to_device_.size(); ++i)
      to_.slices(name_)[i].fill([&](std::byte* values) { std::ranges::copy(to_device_[i], values); });
    if (gathers_) to_.set(name_, result_);
  }

 private:
  void add(const std::vector<CacheSlice>& sources, const std::vector<CacheSlice>& results,
           std::span<const MovedRow> rows) {
    std::vector<std::vector<int64_t>> begins;
    for (const CacheSlice& slice : sources) begins.push_back(slice.begin);
    for (const CacheSlice& slice : results) {
      for (const MovedRow& row : rows) {
        const int64_t place = row.to - slice.begin[0];
        if (place < 0 || place >= slice.shape[0].size) continue;
        const CacheSlice& source =
            sources[static_cast<size_t>(find_slice(begins, sources[0].shape[0].size, row.from, slice.begin))];
        const RowCopy copy{source.data + (row.from - source.begin[0]) * blocks_.blocks * blocks_.from_bytes,
                           slice.data + place * blocks_.blocks * blocks_.to_bytes};
        if (copy.from != copy.to || blocks_.from_bytes != blocks_.to_bytes) copies_.push_back(copy);
      }
    }
  }

  VariableStore& to_;
  std::string name_;
  RowBlocks blocks_;
  std::vector<RowCopy> copies_;
  std::vector<std::byte> saved_;
  std::vector<std::vector<std::byte>> from_device_, to_device_;  ///< copies of slices in a device's memory
  bool gathers_ = false;                                         ///< rows move between processes
  HostTensor gathered_, result_;
};

}  // namespace

std::vector<MovedRow> fitted_rows(std::span<const int64_t> rows, int64_t before, int64_t after,
                                  int64_t parts) {
  const int64_t each_before = before / parts, each = after / parts;
  std::vector<bool> is_taken(static_cast<size_t>(after));
  std::vector<MovedRow> moved, displaced;
  const auto place = [&](int64_t from, int64_t to) {
    is_taken[static_cast<size_t>(to)] = true;
    moved.push_back({from, to});
  };
  for (const int64_t row : rows) {
    const int64_t part = row / each_before, index = row % each_before;
    if (index < each) {
      place(row, part * each + index);
    } else {
      displaced.push_back({row, part * each});
    }
  }
  // First within the part, then wherever there is room.
  std::vector<MovedRow> homeless;
  for (const MovedRow& row : displaced) {
    const auto begin = is_taken.begin() + row.to, end = begin + each, free = std::find(begin, end, false);
    if (free == end) {
      homeless.push_back(row);
    } else {
      place(row.from, free - is_taken.begin());
    }
  }
  for (const MovedRow& row : homeless) place(row.from, std::ranges::find(is_taken, false) - is_taken.begin());
  std::ranges::sort(moved, {}, &MovedRow::from);
  return moved;
}

std::vector<MovedRow> added_rows(int64_t most, std::span<const int64_t> taken, int64_t before, int64_t after,
                                 int64_t parts) {
  const int64_t each_before = before / parts, each = after / parts;
  std::vector<bool> is_taken(static_cast<size_t>(after));
  for (const int64_t row : taken) is_taken[static_cast<size_t>(row)] = true;
  std::vector<MovedRow> moved;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t to = part * each;
    for (int64_t from = part * each_before; from < (part + 1) * each_before; ++from, ++to) {
      while (to < (part + 1) * each && is_taken[static_cast<size_t>(to)]) ++to;
      if (to == (part + 1) * each || std::ssize(moved) == most) break;
      moved.push_back({from, to});
    }
  }
  return moved;
}

void take_cache_rows(const std::vector<ProgramVariable>& caches, const HostedMesh& mesh,
                     std::span<const MovedRow> rows, int64_t filled, const VariableStore& from,
                     VariableStore& to) {
  const auto lies_on_another = [&](const ProgramVariable& v) {
    const MemoryExtent place = extent_of(to, v.variable.name);
    return std::ranges::any_of(caches, [&](const ProgramVariable& other) {
      return other.variable.name != v.variable.name && place.overlaps(extent_of(from, other.variable.name));
    });
  };
  if (!std::ranges::any_of(caches, lies_on_another)) {
    for (const ProgramVariable& v : caches) {
      CacheMoves moves(v, mesh, rows, filled, from, to);
      if (moves.overlap()) moves.save();
      moves.write();
    }
    return;
  }
  std::deque<CacheMoves> all;
  for (const ProgramVariable& v : caches) all.emplace_back(v, mesh, rows, filled, from, to).save();
  for (CacheMoves& moves : all) moves.write();
}

}  // namespace mtf
