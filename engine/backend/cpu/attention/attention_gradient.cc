// The gradient of attention, one entry at a time. For blocks of its queries the weights and their gradients
// are computed again (two blocks of logits in L2), then
//
//   d q = d logits . k,   d k += d logits^T . q,   d v += weights^T . d result.
//
// One task computes a whole entry: its d k and d v are sums over all of its queries, in their order. The
// products take two thirds of the time (8x8x128x64, AVX-512).
#include <tuple>

#include "engine/backend/cpu/attention/attention_blocks.h"
#include "engine/backend/cpu/attention/attention_weights.h"
#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/scratch_parts.h"
#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"
#include "engine/ops/attention.h"

namespace mtf {
namespace {

using Operand = AttentionOperation::Operand;

/// The number of queries of a block. The more there are, the fewer passes over d k and d v, but their logits
/// should stay in L2.
constexpr int64_t kMostRows = 64, kFewestRows = 16, kLogits = 64 << 10;

/// deltas[i] = a[i] . b[i]
template <class C>
MTF_INLINE void dot_rows(const BlockRows<const C>& a, const BlockRows<const C>& b, int64_t rows,
                         int64_t columns, C* deltas) {
  for (int64_t i = 0; i < rows; ++i) {
    const C *x = a.row(i), *y = b.row(i);
    C sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += x[j] * y[j];
    deltas[i] = sum;
  }
}

template <class T>
class AttentionGradientKernel final : public Kernel {
 public:
  explicit AttentionGradientKernel(const KernelContext& context)
      : plan_(context),
        sizes_(block_sizes<C>()),
        further_(plan_.inputs[AttentionPlan::kResult]),
        has_log_sum_gradient_(static_cast<int>(context.inputs.size()) > further_ + 3),
        has_bias_(!plan_.buckets.empty()) {
    block_rows_ = balanced(plan_.rows(), std::clamp(kLogits / plan_.memory, kFewestRows, kMostRows));
    tile_rows_ = balanced(block_rows_, sizes_.tile_rows);
    tile_memory_ = balanced(plan_.memory, sizes_.tile_rows);
    const int64_t flops = std::max<int64_t>(1, plan_.flops(plan_.rows(), 3, 2));
    entries_per_task_ = std::clamp<int64_t>(kFlopsPerAttentionTask / flops, 1, plan_.entries);
  }

  int64_t tasks() const override { return (plan_.entries + entries_per_task_ - 1) / entries_per_task_; }

  size_t scratch_bytes() const override {
    ScratchParts parts(nullptr);
    Buffers(*this, parts);
    return parts.bytes();
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    ScratchParts parts(call.scratch);
    const Buffers buffers(*this, parts);
    const int64_t first = begin * entries_per_task_, last = std::min(plan_.entries, end * entries_per_task_);
    for (int64_t entry = first; entry < last; ++entry) run_entry(call, buffers, entry);
    return (last - first) * plan_.flops(plan_.rows(), 3, 2);
  }

 private:
  using C = Computed<T>;

  struct Buffers {
    Buffers(const AttentionGradientKernel& kernel, ScratchParts& parts) {
      const AttentionPlan& plan = kernel.plan_;
      const int64_t rows = kernel.block_rows_, key = padded(plan.key), value = padded(plan.value);
      queries = parts.take<C>(rows * key);
      d_results = parts.take<C>(rows * value);
      row = parts.take<C>(rows * std::max(key, value));
      weights = parts.take<C>(rows * kernel.logits_stride());
      d_logits = parts.take<C>(rows * kernel.logits_stride());
      log_sums = parts.take<C>(rows);
      deltas = parts.take<C>(rows);
      const int64_t bias_size = plan.heads * static_cast<int64_t>(plan.buckets.size());
      bias = parts.take<C>(bias_size);
      d_bias = parts.take<C>(bias_size);
      counts = parts.take<int32_t>(plan.masked ? plan.memory : 0);
      addends = parts.take<float>(plan.masked ? rows * plan.memory : 0);
      if (plan.soft_cap > 0) slopes = parts.take<C>(plan.memory);
      key_panels = parts.take<C>((plan.memory + kernel.sizes_.panel) * plan.key);
      value_panels = parts.take<C>((plan.memory + kernel.sizes_.panel) * plan.value);
      keys = parts.take<C>(plan.memory * key);
      touched = parts.take<bool>(plan.memory / kernel.tile_memory_ + 1);
      if (!kernel.in_place(plan.key)) d_keys = parts.take<C>(plan.memory * key);
      if (!kernel.in_place(plan.value)) d_values = parts.take<C>(plan.memory * value);
    }

    /// deltas: the dot products of a row of the result and of its gradient, minus the gradient of the log-sum-exp.
    C *queries, *d_results, *row, *weights, *d_logits, *log_sums, *deltas, *bias, *d_bias;
    int32_t* counts;
    float* addends;
    C *key_panels, *value_panels, *keys;
    bool* touched;  ///< by tile of the memory: it has received a gradient
    C *d_keys = nullptr, *d_values = nullptr;
    C* slopes = nullptr;  ///< see AttentionTerms
  };

  /// The operands of a block of rows.
  struct Block {
    std::span<const AttentionRow> rows;
    BlockRows<C> queries, d_results, d_queries;
    int64_t first, last;  ///< part of the memory that they see, in whole panels or tiles
  };
  /// The gradients of keys and values.
  struct Gradients {
    BlockRows<C> keys, values;
  };

  /// If a single block has all rows, gradients of the memory are written directly to the output.
  bool in_place(int64_t columns) const {
    return std::is_same_v<T, C> && columns == padded(columns) && plan_.rows() == block_rows_;
  }
  /// The rows of the output, or rows of `scratch` that are stored at the end.
  BlockRows<C> memory_rows(T* output, int64_t stride, int64_t columns, C* scratch) const {
    if constexpr (std::is_same_v<T, C>) {
      if (in_place(columns)) return {output, stride};
    }
    return {scratch, padded(columns)};
  }

  /// The stride is not a power of two, so that rows fall into different cache sets.
  int64_t logits_stride() const { return (plan_.memory + sizes_.panel) / 16 * 16 + 16; }

  void run_entry(const KernelCall& call, const Buffers& buffers, int64_t index) const {
    const AttentionPlan::Entry entry = plan_.entry(index);
    AttentionIds ids(plan_, call);
    const AttentionTerms<C> terms{plan_,        entry,         ids, plan_.input<C>(call, Operand::kNoise),
                                  buffers.bias, buffers.slopes};
    if (has_bias_) {
      set_bias(terms, plan_.input<C>(call, Operand::kBiasTable));
      std::fill(buffers.d_bias, buffers.d_bias + plan_.heads * terms.relative_positions(plan_), C(0));
    }
    pack(call, buffers, entry);
    T *d_keys = call.output<T>(Operand::kK) + entry[Operand::kK],
      *d_values = call.output<T>(Operand::kV) + entry[Operand::kV];
    const Gradients gradients{memory_rows(d_keys, plan_.key_stride, plan_.key, buffers.d_keys),
                              memory_rows(d_values, plan_.value_stride, plan_.value, buffers.d_values)};
    EntryAhead next = entry_ahead(call, index + 1);
    AttentionRow rows_of_block[kMostRows];
    for (int64_t row = 0; row < plan_.rows(); row += block_rows_) {
      const std::span<AttentionRow> rows(rows_of_block,
                                         static_cast<size_t>(std::min(block_rows_, plan_.rows() - row)));
      ids.find(entry, row, rows, buffers.counts, buffers.addends);
      const Block block = load(call, buffers, entry, rows);
      make_weights(terms, buffers, block, next);
      multiply_by_keys(buffers, block, next);
      if (block.d_queries.data == buffers.row) {
        save_rows(plan_, entry, rows, Operand::kQ, buffers.row, static_cast<const C*>(nullptr), plan_.key,
                  call.output<T>(Operand::kQ));
      }
      add_to_memory(buffers, block, gradients, next);
    }
    clear_untouched(buffers, gradients);
    if (!in_place(plan_.key)) store_rows(buffers.d_keys, plan_.memory, plan_.key, d_keys, plan_.key_stride);
    if (!in_place(plan_.value))
      store_rows(buffers.d_values, plan_.memory, plan_.value, d_values, plan_.value_stride);
    if (has_bias_) sum_buckets(terms, buffers.d_bias, call.output<C>(3));
  }

  /// Without operands where nothing is fetched ahead.
  EntryAhead entry_ahead(const KernelCall& call, int64_t index) const {
    // Each tile of rows and, for each block, of the memory.
    const int64_t steps = 2 * ceil_divide(plan_.rows(), tile_rows_) +
                          ceil_divide(plan_.rows(), block_rows_) * ceil_divide(plan_.memory, tile_memory_);
    if (index >= plan_.entries || !plan_.fetches_ahead(8, sizeof(T))) return {plan_, {}, steps};
    EntryAhead next(plan_, plan_.entry(index), steps);
    next.add_memory(Operand::kK, plan_.input<T>(call, Operand::kK));
    next.add_memory(Operand::kV, plan_.input<T>(call, Operand::kV));
    next.add_memory(Operand::kK, call.output<T>(Operand::kK));
    next.add_memory(Operand::kV, call.output<T>(Operand::kV));
    next.add_queries(Operand::kQ, plan_.input<T>(call, Operand::kQ), plan_.key);
    next.add_queries(Operand::kQ, call.output<T>(Operand::kQ), plan_.key);
    next.add_queries(AttentionPlan::kResult, call.input<T>(further_), plan_.value);
    next.add_queries(AttentionPlan::kResult, call.input<T>(further_ + 2), plan_.value);
    return next;
  }

  void pack(const KernelCall& call, const Buffers& buffers, const AttentionPlan::Entry& entry) const {
    const T* keys = plan_.input<T>(call, Operand::kK) + entry[Operand::kK];
    const T* values = plan_.input<T>(call, Operand::kV) + entry[Operand::kV];
    const int64_t key_stride = plan_.key_stride, stride = plan_.value_stride;
    for (int64_t m = 0; m < plan_.memory; m += sizes_.panel) {
      const int64_t columns = std::min(sizes_.panel, plan_.memory - m);
      pack_panel(keys + m * key_stride, key_stride, columns, plan_.key, buffers.key_panels + m * plan_.key);
      pack_panel(values + m * stride, stride, columns, plan_.value, buffers.value_panels + m * plan_.value);
    }
    copy_rows(keys, key_stride, plan_.memory, plan_.key, buffers.keys);
    std::fill(buffers.touched, buffers.touched + plan_.memory / tile_memory_ + 1, false);
  }

  Block load(const KernelCall& call, const Buffers& buffers, const AttentionPlan::Entry& entry,
             std::span<const AttentionRow> rows) const {
    Block block;
    block.rows = rows;
    // The rows are read once for each tile of the memory; copies of them stay in L1.
    load_rows(plan_, entry, rows, Operand::kQ, plan_.input<T>(call, Operand::kQ), plan_.key, buffers.queries);
    load_rows(plan_, entry, rows, AttentionPlan::kResult, call.input<T>(further_ + 2), plan_.value,
              buffers.d_results);
    block.queries = {buffers.queries, padded(plan_.key)};
    block.d_results = {buffers.d_results, padded(plan_.value)};
    const auto results = block_rows(plan_, entry, rows, AttentionPlan::kResult, call.input<T>(further_),
                                    plan_.value, buffers.row);
    dispatched<dot_rows<C>>(results, BlockRows<const C>{buffers.d_results, padded(plan_.value)},
                            static_cast<int64_t>(rows.size()), plan_.value, buffers.deltas);
    const C* log_sums = call.input<C>(further_ + 1);
    const C* d_log_sums = has_log_sum_gradient_ ? call.input<C>(further_ + 3) : nullptr;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t offset = plan_.offset(entry, rows[i], AttentionPlan::kLogSum);
      buffers.log_sums[i] = log_sums[offset];
      if (d_log_sums != nullptr) buffers.deltas[i] -= d_log_sums[offset];
    }
    block.d_queries = {buffers.row, padded(plan_.key)};
    if constexpr (std::is_same_v<T, C>) {
      if (plan_.rows_in_place(plan_.key))
        block.d_queries = {call.output<T>(Operand::kQ) + plan_.offset(entry, rows[0], Operand::kQ),
                           plan_.length_stride(Operand::kQ)};
    }
    std::tie(block.first, block.last) = seen_by(rows, 1);
    block.first =
        std::min(block.first / sizes_.panel * sizes_.panel, block.first / tile_memory_ * tile_memory_);
    block.last = std::min(plan_.memory, (block.last + tile_memory_ - 1) / tile_memory_ * tile_memory_);
    return block;
  }

  /// Calls visit(row, rows, first, last) for tiles of the rows with the part of the memory that they see.
  template <class Visit>
  void for_each_tile(std::span<const AttentionRow> rows, Visit visit) const {
    const auto size = static_cast<size_t>(tile_rows_);
    for (size_t row = 0; row < rows.size(); row += size) {
      const auto tile = rows.subspan(row, std::min(size, rows.size() - row));
      const auto [first, last] = seen_by(tile, sizes_.panel);
      visit(static_cast<int64_t>(row), tile, first, last);
    }
  }

  /// Computes weights and gradients of the logits. Entries of [block.first, block.last) that a row does not
  /// see become 0.
  void make_weights(const AttentionTerms<C>& terms, const Buffers& buffers, const Block& block,
                    EntryAhead& next) const {
    const int64_t stride = logits_stride();
    for_each_tile(block.rows, [&](int64_t row, std::span<const AttentionRow> tile, int64_t begin,
                                  int64_t end) {
      next.fetch();
      const auto count = static_cast<int64_t>(tile.size());
      C *weights = buffers.weights + row * stride, *d_logits = buffers.d_logits + row * stride;
      const auto multiply = [&](const BlockRows<C>& a, const C* panels, int64_t depth, C* to) {
        multiply_panels(BlockProduct<C>{.rows = count,
                                        .depth = depth,
                                        .a = a.row(row),
                                        .a_row_stride = a.stride,
                                        .a_depth_stride = 1,
                                        .c = to,
                                        .c_row_stride = stride},
                        panels, plan_.memory, begin, end);
      };
      multiply(block.queries, buffers.key_panels, plan_.key, weights);
      multiply(block.d_results, buffers.value_panels, plan_.value, d_logits);
      weight_gradients(terms, tile, block.first, block.last, weights, d_logits, stride,
                       buffers.log_sums + row, buffers.deltas + row, has_bias_ ? buffers.d_bias : nullptr);
    });
  }

  void multiply_by_keys(const Buffers& buffers, const Block& block, EntryAhead& next) const {
    const int64_t stride = logits_stride(), key = padded(plan_.key);
    for_each_tile(block.rows,
                  [&](int64_t row, std::span<const AttentionRow> tile, int64_t begin, int64_t end) {
                    next.fetch();
                    multiply_block(BlockProduct<C>{.rows = static_cast<int64_t>(tile.size()),
                                                   .columns = key,
                                                   .depth = end - begin,
                                                   .a = buffers.d_logits + row * stride + begin,
                                                   .a_row_stride = stride,
                                                   .a_depth_stride = 1,
                                                   .b = buffers.keys + begin * key,
                                                   .b_depth_stride = key,
                                                   .c = block.d_queries.row(row),
                                                   .c_row_stride = block.d_queries.stride});
                  });
  }

  /// Adds to d k and d v of the entries that the block sees, tile by tile, from the rows that see each tile.
  void add_to_memory(const Buffers& buffers, const Block& block, const Gradients& gradients,
                     EntryAhead& next) const {
    const int64_t stride = logits_stride();
    for (int64_t m = block.first / tile_memory_ * tile_memory_; m < block.last; m += tile_memory_) {
      const int64_t end = std::min(block.last, m + tile_memory_);
      const auto sees = [&](const AttentionRow& row) {
        return row.visible.begin < end && row.visible.end > m;
      };
      const auto& rows = block.rows;
      const int64_t row = std::find_if(rows.begin(), rows.end(), sees) - rows.begin();
      const int64_t depth = rows.rend() - std::find_if(rows.rbegin(), rows.rend(), sees) - row;
      if (depth <= 0) continue;
      next.fetch();
      bool& touched = buffers.touched[m / tile_memory_];
      const int64_t count = std::min(tile_memory_, plan_.memory - m);
      const auto multiply = [&](const C* a, const BlockRows<C>& from, int64_t columns,
                                const BlockRows<C>& to) {
        multiply_block(BlockProduct<C>{.rows = count,
                                       .columns = padded(columns),
                                       .depth = depth,
                                       .a = a + row * stride + m,
                                       .a_row_stride = 1,
                                       .a_depth_stride = stride,
                                       .b = from.row(row),
                                       .b_depth_stride = from.stride,
                                       .c = to.row(m),
                                       .c_row_stride = to.stride,
                                       .add = touched});
      };
      multiply(buffers.d_logits, block.queries, plan_.key, gradients.keys);
      multiply(buffers.weights, block.d_results, plan_.value, gradients.values);
      touched = true;
    }
  }

  void clear_untouched(const Buffers& buffers, const Gradients& gradients) const {
    for (int64_t m = 0; m < plan_.memory; ++m) {
      if (buffers.touched[m / tile_memory_]) continue;
      std::fill_n(gradients.keys.row(m), padded(plan_.key), C(0));
      std::fill_n(gradients.values.row(m), padded(plan_.value), C(0));
    }
  }

  AttentionPlan plan_;
  BlockSizes sizes_;
  int further_;  ///< index of the result among the inputs
  bool has_log_sum_gradient_;
  bool has_bias_;
  int64_t block_rows_, tile_rows_, tile_memory_, entries_per_task_;
};

template <class T>
std::unique_ptr<Kernel> attention_gradient_kernel(const KernelContext& context) {
  return std::make_unique<AttentionGradientKernel<T>>(context);
}

const KernelRegistration gradient_f32("attention_gradient", {DType::kFloat32},
                                      attention_gradient_kernel<float>);
const KernelRegistration gradient_f64("attention_gradient", {DType::kFloat64},
                                      attention_gradient_kernel<double>);
const KernelRegistration gradient_bf16("attention_gradient", {DType::kBFloat16},
                                       attention_gradient_kernel<BFloat16>);

}  // namespace
}  // namespace mtf
