// AttentionPlan describes how the attention kernels iterate over their operands. An *entry* is one index of
// the dimensions that k has (batch, heads); it has a memory of its own. Its *rows* are the queries that
// attend to this memory: each position of the length, with each index of the dimensions that k lacks (all
// heads in multi-query attention). Entries whose memories have a shared prefix are the *copies* of one entry.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/attention_geometry.h"
#include "engine/backend/cpu/attention/attention_blocks.h"
#include "engine/backend/cpu/attention/attention_masks.h"
#include "engine/backend/cpu/contractions/prefetched_rows.h"
#include "engine/backend/element.h"
#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"
#include "engine/base/integer_division.h"
#include "engine/ops/attention.h"

namespace mtf {

/// Small entries are combined into tasks of about this many FLOPs.
inline constexpr int64_t kFlopsPerAttentionTask = 2 << 20;

/// One row and the entries of the memory that it sees.
struct AttentionRow {
  int64_t query = 0, head = 0;
  VisibleEntries visible;
  int64_t position = 0;
};

class AttentionPlan : public AttentionGeometry {
 public:
  explicit AttentionPlan(const KernelContext& context);

  /// The offsets of an entry in each operand.
  using Entry = Offsets<kOperands>;
  Entry entry(int64_t index, int64_t copy = 0) const {
    Entry at = offsets_of(entry_axes, index);
    for (int i = 0; i < kOperands; ++i) at[i] += copies_[static_cast<size_t>(copy)][static_cast<size_t>(i)];
    return at;
  }
  /// Copies of each entry: those of options.copies; one for gradients, and where there is no shared prefix.
  int64_t copies() const { return std::ssize(copies_); }
  /// The offset of a row of that entry.
  int64_t offset(const Entry& entry, const AttentionRow& row, int operand) const {
    return entry[operand] + row.query * length_strides[operand] + heads_[row.head][operand];
  }

  int64_t length_stride(int operand) const { return length_strides[operand]; }
  /// True if rows of so many columns are whole vectors at equal distances.
  bool rows_in_place(int64_t columns) const { return heads == 1 && columns == padded(columns); }
  bool has(int operand) const { return inputs[operand] >= 0; }
  /// Null if the operand is absent.
  template <class T>
  const T* input(const KernelCall& call, AttentionOperation::Operand operand) const {
    return has(operand) ? call.input<T>(inputs[operand]) : nullptr;
  }

  int64_t entries, heads;  ///< row i of an entry is query i / heads, head i % heads
  bool masked, masked_by_head = false;
  bool by_priority;
  std::optional<int64_t> min_relative, max_relative;
  double extra_logit;
  double soft_cap;  ///< 0: none

  int64_t rows() const { return queries * heads; }
  /// True if the operands of an entry are fetched while the one before is computed. If they are larger than L2, they would push
  /// each other out of it. `operands`: the number of those with rows of keys, values, queries or results.
  bool fetches_ahead(int64_t operands, int64_t element_bytes) const {
    constexpr int64_t kMostBytes = 512 << 10;
    return heads == 1 &&
           operands * std::max(memory, queries) * std::max(key, value) * element_bytes <= kMostBytes;
  }
  /// The FLOPs of `rows` rows with so many contractions over `key` and over `value`.
  int64_t flops(int64_t rows, int over_key, int over_value) const {
    return 2 * rows * memory * (over_key * key + over_value * value);
  }

 private:
  std::vector<Offsets<kOperands>> heads_, copies_;
};

/// The ids of queries and memory during one run of a kernel.
class AttentionIds {
 public:
  AttentionIds(const AttentionPlan& plan, const KernelCall& call);

  /// Fills `rows` with the rows begin, begin + 1, ... of an entry. `counts` [memory] and `addends`
  /// [rows.size()][memory] are scratch arrays.
  void find(const AttentionPlan::Entry& entry, int64_t begin, std::span<AttentionRow> rows, int32_t* counts,
            float* addends);
  /// The positions of the memory for a row; null if they are the indices.
  const int32_t* positions(const AttentionPlan::Entry& entry, const AttentionRow& row) const;

 private:
  QueryMasks masks(const AttentionPlan::Entry& entry, const AttentionRow& row) const;

  const AttentionPlan& plan_;
  int64_t first_query_;
  std::array<const int32_t*, AttentionOperation::kOperands> ids_{};
  bool any_ids_ = false;
  QueryMasks common_;       ///< the part that is the same for all rows
  SegmentEntries segment_;  ///< the segment of the row that was found last
};

/// The operands of an entry, fetched into L2 step by step while the one before is computed. Rows of small heads are single cache
/// lines far apart, which processors do not fetch ahead themselves.
class EntryAhead {
 public:
  /// `steps`: how often fetch() is called.
  EntryAhead(const AttentionPlan& plan, const AttentionPlan::Entry& entry, int64_t steps)
      : plan_(plan), entry_(entry), steps_(std::max<int64_t>(1, steps)) {}

  /// Adds the rows of keys or values, of an operand that has their layout.
  template <class T>
  void add_memory(AttentionOperation::Operand operand, const T* data) {
    const bool is_key = operand == AttentionOperation::kK;
    add(data + entry_[operand], plan_.memory, is_key ? plan_.key_stride : plan_.value_stride,
        is_key ? plan_.key : plan_.value);
  }
  /// Adds the rows of the queries, or of results, of an operand with that layout.
  template <class T>
  void add_queries(int operand, const T* data, int64_t columns) {
    add(data + entry_[operand], plan_.queries, plan_.length_stride(operand), columns);
  }
  /// Fetches a part of each operand.
  void fetch() {
    for (PrefetchedRows& rows : std::span(operands_).first(count_))
      rows.fetch(ceil_divide(rows.rows(), steps_));
    steps_ = std::max<int64_t>(1, steps_ - 1);
  }

 private:
  template <class T>
  void add(const T* data, int64_t rows, int64_t stride, int64_t columns) {
    operands_[count_++] = PrefetchedRows(data, rows, stride, columns);
  }

  const AttentionPlan& plan_;
  const AttentionPlan::Entry entry_;
  int64_t steps_;
  std::array<PrefetchedRows, 8> operands_;
  size_t count_ = 0;
};

/// The smallest interval of the memory that contains all that these rows see, its begin rounded down to a
/// multiple of `unit`.
std::pair<int64_t, int64_t> seen_by(std::span<const AttentionRow> rows, int64_t unit);

/// Loads rows of an entry from one operand: to[i] [padded(columns)] = row i.
template <class T>
void load_rows(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
               std::span<const AttentionRow> rows, int operand, const T* data, int64_t columns,
               Computed<T>* to);
/// The rows in place if they can be an operand of a product there, else loaded into `scratch`.
template <class T>
BlockRows<const Computed<T>> block_rows(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
                                        std::span<const AttentionRow> rows, int operand, const T* data,
                                        int64_t columns, Computed<T>* scratch) {
  if constexpr (std::is_same_v<T, Computed<T>>) {
    if (plan.rows_in_place(columns))
      return {data + plan.offset(entry, rows[0], operand), plan.length_stride(operand)};
  }
  load_rows(plan, entry, rows, operand, data, columns, scratch);
  return {scratch, padded(columns)};
}
/// The inverse of load_rows, with row i multiplied by scales[i] (null: 1).
template <class T>
void save_rows(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
               std::span<const AttentionRow> rows, int operand, const Computed<T>* from,
               const Computed<T>* scales, int64_t columns, T* data);

}  // namespace mtf
