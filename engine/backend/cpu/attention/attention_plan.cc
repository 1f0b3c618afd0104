#include "engine/backend/cpu/attention/attention_plan.h"

#include <algorithm>
#include <limits>

#include "engine/base/dispatch.h"

namespace mtf {
namespace {

using Operand = AttentionOperation::Operand;

template <class T>
MTF_INLINE void load(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
                     std::span<const AttentionRow> rows, int operand, const T* data, int64_t columns,
                     Computed<T>* to) {
  const int64_t width = padded(columns);
  for (const AttentionRow& row : rows) {
    const T* from = data + plan.offset(entry, row, operand);
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) to[j] = widen(from[j]);
    for (int64_t j = columns; j < width; ++j) to[j] = 0;
    to += width;
  }
}

template <class T>
MTF_INLINE void save(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
                     std::span<const AttentionRow> rows, int operand, const Computed<T>* from,
                     const Computed<T>* scales, int64_t columns, T* data) {
  for (const AttentionRow& row : rows) {
    const Computed<T> scale = scales != nullptr ? *scales++ : Computed<T>(1);
    T* to = data + plan.offset(entry, row, operand);
#pragma GCC ivdep
    for (int64_t j = 0; j < columns; ++j) to[j] = narrow<T>(from[j] * scale);
    from += padded(columns);
  }
}

}  // namespace

AttentionPlan::AttentionPlan(const KernelContext& context) : AttentionGeometry(context, true) {
  const auto& operation = static_cast<const AttentionOperation&>(context.operation);
  const AttentionOptions& options = operation.options;
  entries = size_of(entry_axes);
  heads = size_of(head_axes);
  for_each_offset(head_axes, 0, heads, [&](const Offsets<kOperands>& at) { heads_.push_back(at); });
  for_each_offset(copy_axes, 0, size_of(copy_axes),
                  [&](const Offsets<kOperands>& at) { copies_.push_back(at); });

  by_priority = operation.has_priorities();
  min_relative = options.min_relative;
  max_relative = options.max_relative;
  masked = has(kMemorySegment) || by_priority || min_relative || max_relative;
  for (int operand = kQuerySegment; operand <= kMemoryPosition; ++operand)
    masked_by_head |= heads_.back()[operand] != 0;
  extra_logit = options.extra_logit.value_or(-std::numeric_limits<double>::infinity());
  soft_cap = options.soft_cap.value_or(0);
}

AttentionIds::AttentionIds(const AttentionPlan& plan, const KernelCall& call)
    : plan_(plan), first_query_(plan.first_query(call)) {
  for (int i = Operand::kQuerySegment; i <= Operand::kMemoryPosition; ++i) {
    ids_[i] = plan.input<int32_t>(call, static_cast<Operand>(i));
    any_ids_ |= ids_[i] != nullptr;
  }
  common_.by_segment = plan.has(Operand::kMemorySegment);
  common_.by_priority = plan.by_priority;
  common_.min_relative = plan.min_relative;
  common_.max_relative = plan.max_relative;
}

QueryMasks AttentionIds::masks(const AttentionPlan::Entry& entry, const AttentionRow& row) const {
  using enum Operand;
  QueryMasks masks = common_;
  masks.priority = masks.position = first_query_ + row.query;
  if (!any_ids_) return masks;
  const auto of_memory = [&](int operand, const int32_t*& ids) {
    if (ids_[operand] != nullptr) ids = ids_[operand] + plan_.offset(entry, row, operand);
  };
  const auto of_query = [&](int operand, int64_t& id) {
    if (ids_[operand] != nullptr) id = ids_[operand][plan_.offset(entry, row, operand)];
  };
  of_query(kQuerySegment, masks.segment);
  of_memory(kMemorySegment, masks.segments);
  of_query(kQueryPriority, masks.priority);
  of_memory(kMemoryPriority, masks.priorities);
  of_query(kQueryPosition, masks.position);
  of_memory(kMemoryPosition, masks.positions);
  return masks;
}

const int32_t* AttentionIds::positions(const AttentionPlan::Entry& entry, const AttentionRow& row) const {
  const int32_t* positions = ids_[Operand::kMemoryPosition];
  return positions != nullptr ? positions + plan_.offset(entry, row, Operand::kMemoryPosition) : nullptr;
}

void AttentionIds::find(const AttentionPlan::Entry& entry, int64_t begin, std::span<AttentionRow> rows,
                        int32_t* counts, float* addends) {
  int64_t query = begin / plan_.heads, head = begin % plan_.heads;
  for (size_t i = 0; i < rows.size(); ++i, addends += plan_.memory) {
    AttentionRow& row = rows[i];
    row.query = query;
    row.head = head;
    if (++head == plan_.heads) head = 0, ++query;
    if (!plan_.masked && plan_.buckets.empty()) {
      row.visible = {0, plan_.memory};
    } else if (i > 0 && rows[i - 1].query == row.query && !plan_.masked_by_head) {
      row.visible = rows[i - 1].visible;
      row.position = rows[i - 1].position;
    } else {
      const QueryMasks mask = masks(entry, row);
      row.position = mask.position;
      row.visible = visible_entries(mask, plan_.memory, counts, addends, segment_);
    }
  }
}

std::pair<int64_t, int64_t> seen_by(std::span<const AttentionRow> rows, int64_t unit) {
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (const AttentionRow& row : rows) {
    first = std::min(first, row.visible.begin);
    last = std::max(last, row.visible.end);
  }
  return {first / unit * unit, last};
}

template <class T>
void load_rows(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
               std::span<const AttentionRow> rows, int operand, const T* data, int64_t columns,
               Computed<T>* to) {
  dispatched<load<T>>(plan, entry, rows, operand, data, columns, to);
}
template void load_rows(const AttentionPlan&, const AttentionPlan::Entry&, std::span<const AttentionRow>, int,
                        const float*, int64_t, float*);
template void load_rows(const AttentionPlan&, const AttentionPlan::Entry&, std::span<const AttentionRow>, int,
                        const double*, int64_t, double*);
template void load_rows(const AttentionPlan&, const AttentionPlan::Entry&, std::span<const AttentionRow>, int,
                        const BFloat16*, int64_t, float*);

template <class T>
void save_rows(const AttentionPlan& plan, const AttentionPlan::Entry& entry,
               std::span<const AttentionRow> rows, int operand, const Computed<T>* from,
               const Computed<T>* scales, int64_t columns, T* data) {
  dispatched<save<T>>(plan, entry, rows, operand, from, scales, columns, data);
}
template void save_rows(const AttentionPlan&, const AttentionPlan::Entry&, std::span<const AttentionRow>, int,
                        const float*, const float*, int64_t, float*);
template void save_rows(const AttentionPlan&, const AttentionPlan::Entry&, std::span<const AttentionRow>, int,
                        const double*, const double*, int64_t, double*);
template void save_rows(const AttentionPlan&, const AttentionPlan::Entry&, std::span<const AttentionRow>, int,
                        const float*, const float*, int64_t, BFloat16*);

}  // namespace mtf
