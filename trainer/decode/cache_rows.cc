#include "trainer/decode/cache_rows.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/backend/block_copy.h"
#include "engine/base/memory_extent.h"
#include "models/text_decoder.h"

namespace mtf {
namespace {

/// A slice of a cache.
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
  int64_t from_row() const { return blocks * from_bytes; }
  int64_t to_row() const { return blocks * to_bytes; }
  /// The copy of one row.
  BlockCopy copy(const std::byte* from, std::byte* to) const {
    return {.from = from,
            .to = to,
            .runs = blocks,
            .length = copied,
            .from_row = from_row(),
            .to_row = to_row(),
            .from_run = from_bytes,
            .to_run = to_bytes};
  }
  int64_t blocks = 1;
  int64_t from_bytes = 0, to_bytes = 0;  ///< from one block to the next
  int64_t copied = 0;                    ///< at the begin of each
};

/// Returns this process's slices of a cache, where they are.
std::vector<CacheSlice> slices_of(const VariableStore& store, const std::string& name) {
  std::vector<CacheSlice> slices;
  for (const VariableStore::StoredSlice& slice : store.slices(name))
    slices.push_back({slice.begin, slice.shape, slice.data});
  return slices;
}

/// The memory from the first slice of a cache to its last.
MemoryExtent extent_of(const VariableStore& store, const std::string& name) {
  MemoryExtent extent;
  for (const VariableStore::StoredSlice& slice : store.slices(name))
    extent.add({slice.data, slice.data + slice.bytes});
  return extent;
}

/// The moves of the rows of one cache.
class CacheMoves {
 public:
  CacheMoves(const ProgramVariable& variable, const HostedMesh& mesh, std::span<const MovedRow> rows,
             int64_t filled, const VariableStore& from, VariableStore& to)
      : to_(to), name_(variable.variable.name) {
    const Shape &old = from.variable(name_).shape, &shape = to.variable(name_).shape;
    const size_t element = size_of(variable.variable.dtype);
    gathers_ = !rows_stay(old, shape, variable.layout, mesh, rows);
    if (gathers_) {
      gathered_ = from.get(name_);
      result_ = to.get(name_);
      const std::vector<int64_t> zero(static_cast<size_t>(shape.rank()));
      add({{zero, old, gathered_.bytes.data()}}, {{zero, shape, result_.bytes.data()}}, rows,
          RowBlocks(old, shape, filled, element));
      return;
    }
    const std::vector<CacheSlice> sources = slices_of(from, name_), results = slices_of(to, name_);
    if (sources.empty()) return;  // the positions of another process have the cache
    backend_ = to.slices(name_)[0].backend;
    add(sources, results, rows, RowBlocks(sources[0].shape, results[0].shape, filled, element));
  }

  /// Copies the rows to memory of their own, unless they are there.
  void save() {
    if (copies_.empty() || gathers_) return;
    int64_t bytes = 0;
    for (const BlockCopy& copy : copies_) bytes += copy.rows * copy.runs * copy.length;
    saved_ = backend_->allocate(bytes);
    std::byte* next = saved_->data();
    std::vector<BlockCopy> saves = copies_;
    for (size_t i = 0; i < saves.size(); ++i) {
      BlockCopy &save = saves[i], &copy = copies_[i];
      save.to = next;
      save.to_run = save.length;
      save.to_row = save.runs * save.length;
      copy.from = std::exchange(next, next + save.rows * save.to_row);
      copy.from_run = save.to_run;
      copy.from_row = save.to_row;
    }
    backend_->copy_blocks(saves);
  }
  /// True if rows that are read lie between the first and the last one that is written.
  bool overlap() const {
    MemoryExtent read, written;
    for (const BlockCopy& copy : copies_) {
      read.add({copy.from, copy.from + copy.rows * copy.from_row});
      written.add({copy.to, copy.to + copy.rows * copy.to_row});
    }
    return read.overlaps(written);
  }
  void write() {
    if (gathers_) {
      copy_blocks_on_host(copies_);
      to_.set(name_, result_);
    } else if (!copies_.empty()) {
      backend_->copy_blocks(copies_);
      if (saved_ != nullptr) backend_->wait();  // before the memory is released
    }
  }

 private:
  void add(const std::vector<CacheSlice>& sources, const std::vector<CacheSlice>& results,
           std::span<const MovedRow> rows, const RowBlocks& blocks) {
    std::vector<std::vector<int64_t>> begins;
    for (const CacheSlice& slice : sources) begins.push_back(slice.begin);
    for (const CacheSlice& slice : results) {
      for (const MovedRow& row : rows) {
        const int64_t place = row.to - slice.begin[0];
        if (place < 0 || place >= slice.shape[0].size) continue;
        const CacheSlice& source =
            sources[static_cast<size_t>(find_slice(begins, sources[0].shape[0].size, row.from, slice.begin))];
        add(blocks.copy(source.data + (row.from - source.begin[0]) * blocks.from_row(),
                        slice.data + place * blocks.to_row()));
      }
    }
  }
  /// Adds the copy of a row, unless it is there: to the last copy, if it follows that in both memories.
  void add(const BlockCopy& row) {
    if (row.from == row.to && row.from_run == row.to_run) return;
    if (!copies_.empty()) {
      BlockCopy& last = copies_.back();
      if (row.from == last.from + last.rows * last.from_row && row.to == last.to + last.rows * last.to_row) {
        ++last.rows;
        return;
      }
    }
    copies_.push_back(row);
  }

  VariableStore& to_;
  std::string name_;
  Backend* backend_ = nullptr;
  std::vector<BlockCopy> copies_;
  std::unique_ptr<DeviceMemory> saved_;
  bool gathers_ = false;  ///< rows move between processes
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
