// Attention on the CPU. For as many queries at a time as a tile of a matrix product has rows, the kernel
// computes the logits over the memory that they see (in L1 or L2), the exponentials, and the weighted sum of
// the values. Keys (packed for products) and values are copied once for each task, so that strides do not
// matter; queries are read in place where possible.
//
// With very few queries (decoding), keys and values are read in place, once for up to eight rows of the heads that
// share them. The prefix that copies of an entry share is read from the first one, for the rows of all.
#include "engine/ops/attention.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/backend/cpu/attention/attention_blocks.h"
#include "engine/backend/cpu/attention/attention_weights.h"
#include "engine/backend/cpu/contractions/gemm_kernels.h"
#include "engine/backend/cpu/contractions/thin_product.h"
#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/backend/scratch_parts.h"
#include "engine/base/dispatch.h"
#include "engine/base/integer_division.h"

namespace mtf {
namespace {

using Operand = AttentionOperation::Operand;

constexpr int64_t kFewQueries = 4;
/// Where there are few entries, they are cut into tasks of at least this many queries.
constexpr int64_t kRowsPerTask = 128;

/// logits[i][m] = queries[i] . keys[m].
template <class T>
MTF_INLINE void multiply_one_by_one(const T* keys, int64_t stride, int64_t begin, int64_t end, int64_t depth,
                                    const Computed<T>* queries, int64_t rows, Computed<T>* logits,
                                    int64_t logits_stride) {
  for (int64_t m = begin; m < end; ++m) {
    const T* key = keys + m * stride;
    for (int64_t i = 0; i < rows; ++i) {
      const Computed<T>* query = queries + i * padded(depth);
      Computed<T> sum = 0;
      for (int64_t j = 0; j < depth; ++j) sum += query[j] * widen(key[j]);
      logits[i * logits_stride + m] = sum;
    }
  }
}

/// results[i] = sum over m of weights[i][m] * values[m]. Each pass over the result adds four terms.
template <class T>
MTF_INLINE void sum_one_by_one(const T* values, int64_t stride, int64_t begin, int64_t end, int64_t columns,
                               const Computed<T>* weights, int64_t weights_stride, int64_t rows,
                               Computed<T>* results) {
  const int64_t width = padded(columns);
  std::fill(results, results + rows * width, Computed<T>(0));
  int64_t m = begin;
  for (; m + 4 <= end; m += 4) {
    const T *v0 = values + m * stride, *v1 = v0 + stride, *v2 = v1 + stride, *v3 = v2 + stride;
    for (int64_t i = 0; i < rows; ++i) {
      const Computed<T>* w = weights + i * weights_stride + m;
      Computed<T>* to = results + i * width;
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j)
        to[j] += w[0] * widen(v0[j]) + w[1] * widen(v1[j]) + w[2] * widen(v2[j]) + w[3] * widen(v3[j]);
    }
  }
  for (; m < end; ++m) {
    for (int64_t i = 0; i < rows; ++i) {
      const Computed<T> weight = weights[i * weights_stride + m];
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) results[i * width + j] += weight * widen(values[m * stride + j]);
    }
  }
}

/// logits[i][m] = queries[i] . keys[m] for m from `begin` on, by thin products. Whole vectors are computed: logits from
/// `end` on are of no use, and near the end of the memory some are computed twice. The bits are those of a product of many
/// queries. A memory of less than a vector is multiplied entry by entry, with sums in another order.
template <class T>
void multiply_in_place(const T* keys, int64_t stride, int64_t begin, int64_t end, int64_t memory,
                       int64_t depth, const Computed<T>* queries, int64_t rows, Computed<T>* logits,
                       int64_t logits_stride) {
  if constexpr (!std::is_same_v<T, double>) {
    const GemmKernels& kernels = gemm_kernels(instruction_set());
    const int64_t width = kernels.vector_width;
    const auto multiply = [&](int64_t first, int64_t columns) {
      mtf::multiply(ThinProduct<T>{.columns = columns,
                                   .depth = depth,
                                   .block = depth,
                                   .a = queries,
                                   .a_row_stride = padded(depth),
                                   .b = keys + first * stride,
                                   .b_column_stride = stride,
                                   .b_depth_stride = 1,
                                   .c = logits + first,
                                   .c_row_stride = logits_stride},
                    rows, kernels);
    };
    const int64_t columns = round_up(end - begin, width);
    if (begin + columns <= memory) return multiply(begin, columns);
    if (memory >= width) {
      if (columns > width) multiply(begin, columns - width);
      return multiply(memory - width, width);
    }
  }
  dispatched<multiply_one_by_one<T>>(keys, stride, begin, end, depth, queries, rows, logits, logits_stride);
}

/// True if sum_in_place() can continue sums.
template <class T>
bool sums_continue(int64_t columns) {
  return !std::is_same_v<T, double> && columns % gemm_kernels(instruction_set()).vector_width == 0;
}

/// results[i] = sum over m of weights[i][m] * values[m], by thin products where values are whole vectors. With `continues`
/// the results are the sums over the entries before.
template <class T>
void sum_in_place(const T* values, int64_t stride, int64_t begin, int64_t end, int64_t columns,
                  const Computed<T>* weights, int64_t weights_stride, int64_t rows, Computed<T>* results,
                  bool continues) {
  if constexpr (!std::is_same_v<T, double>) {
    if (sums_continue<T>(columns) && begin < end) {
      mtf::multiply(ThinProduct<T>{.columns = columns,
                                   .depth = end - begin,
                                   .block = end - begin,
                                   .a = weights + begin,
                                   .a_row_stride = weights_stride,
                                   .b = values + begin * stride,
                                   .b_column_stride = 1,
                                   .b_depth_stride = stride,
                                   .c = results,
                                   .c_row_stride = padded(columns),
                                   .continues = continues},
                    rows, gemm_kernels(instruction_set()));
      return;
    }
  }
  dispatched<sum_one_by_one<T>>(values, stride, begin, end, columns, weights, weights_stride, rows, results);
}

template <class T>
class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const KernelContext& context)
      : plan_(context),
        sizes_(block_sizes<C>()),
        in_place_(plan_.queries < kFewQueries),
        together_(in_place_ ? plan_.copies() : 1) {
    const int64_t flops = std::max<int64_t>(1, plan_.copies() * plan_.flops(plan_.rows(), 1, 1));
    entries_per_task_ = std::clamp<int64_t>(kFlopsPerAttentionTask / flops, 1, plan_.entries);
    if (!in_place_ && entries_per_task_ == 1) {
      parts_ = std::clamp<int64_t>(plan_.rows() / kRowsPerTask, 1,
                                   (kMostFlopTasks + plan_.entries - 1) / plan_.entries);
    }
    tile_rows_ = balanced((plan_.rows() + parts_ - 1) / parts_, sizes_.tile_rows);
  }

  int64_t tasks() const override {
    return (plan_.entries + entries_per_task_ - 1) / entries_per_task_ * parts_;
  }

  size_t scratch_bytes() const override {
    ScratchParts parts(nullptr);
    Buffers(*this, parts);
    return parts.bytes();
  }

  int64_t run(const KernelCall& call, int64_t begin, int64_t end) const override {
    ScratchParts parts(call.scratch);
    const Buffers buffers(*this, parts);
    int64_t flops = 0;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task / parts_ * entries_per_task_, part = task % parts_;
      const int64_t row = plan_.rows() * part / parts_, end_row = plan_.rows() * (part + 1) / parts_;
      for (int64_t entry = first; entry < std::min(plan_.entries, first + entries_per_task_); ++entry) {
        for (int64_t copy = 0; copy < plan_.copies(); copy += together_)
          run_copies(call, buffers, entry, copy, row, end_row);
        flops += plan_.copies() * plan_.flops(end_row - row, 1, 1);
      }
    }
    return flops;
  }

 private:
  using C = Computed<T>;

  struct Buffers {
    Buffers(const AttentionKernel& kernel, ScratchParts& parts) {
      const AttentionPlan& plan = kernel.plan_;
      const int64_t rows = kernel.together_ * kernel.tile_rows_;
      queries = parts.take<C>(rows * padded(plan.key));
      logits = parts.take<C>(rows * kernel.logits_stride());
      results = parts.take<C>(rows * padded(plan.value));
      log_sums = parts.take<C>(rows);
      scales = parts.take<C>(rows);
      bias = parts.take<C>(kernel.together_ * kernel.bias_size());
      counts = parts.take<int32_t>(plan.masked ? plan.memory : 0);
      addends = parts.take<float>(plan.masked ? rows * plan.memory : 0);
      entries = parts.take<AttentionPlan::Entry>(kernel.together_);
      this->rows = parts.take<AttentionRow>(rows);
      if (kernel.in_place_) return;
      keys = parts.take<C>((plan.memory + kernel.sizes_.panel) * plan.key);
      values = parts.take<C>(plan.memory * padded(plan.value));
      packed = parts.take<bool>(plan.memory / kernel.sizes_.panel + 1);
    }

    C *queries, *logits, *results, *log_sums, *scales, *bias;
    int32_t* counts;
    float* addends;
    AttentionPlan::Entry* entries;  ///< the copies that are computed together
    AttentionRow* rows;             ///< by copy
    C *keys = nullptr, *values = nullptr;
    bool* packed = nullptr;  ///< by panel of keys: it and the values of its entries are packed
  };

  /// The distance between rows of logits is not a power of two, so that they fall into different cache sets.
  int64_t logits_stride() const { return (plan_.memory + sizes_.panel) / 16 * 16 + 16; }
  int64_t bias_size() const { return plan_.heads * std::ssize(plan_.buckets); }

  /// Rows of copies, and the interval of the memory that they see. In the buffers the rows of one copy follow those of
  /// the one before.
  struct Tile {
    const KernelCall& call;
    const Buffers& buffers;
    int64_t copy, copies;  ///< the first one among those in the buffers, and their number
    int64_t rows;          ///< number for each copy
    int64_t first = 0, last = 0;
    int64_t shared = 0;  ///< the keys and values from `first` up to here are those of the first copy

    int64_t row_of(int64_t i) const { return (copy + i) * rows; }
    const AttentionPlan::Entry& entry_of(int64_t i) const { return buffers.entries[copy + i]; }
    std::span<const AttentionRow> rows_of(int64_t i) const {
      return {buffers.rows + row_of(i), static_cast<size_t>(rows)};
    }
  };

  /// Computes rows begin .. end - 1 of those copies of an entry, from `copy` on, that are computed together.
  void run_copies(const KernelCall& call, const Buffers& buffers, int64_t index, int64_t copy, int64_t begin,
                  int64_t end) const {
    AttentionIds ids(plan_, call);
    for (int64_t i = 0; i < together_; ++i) {
      buffers.entries[i] = plan_.entry(index, copy + i);
      if (const C* table = plan_.input<C>(call, Operand::kBiasTable);
          table && (i == 0 || !shares_bias(buffers, i)))
        set_bias(terms_of(call, buffers, ids, i), table);
    }
    if (!in_place_) std::fill(buffers.packed, buffers.packed + plan_.memory / sizes_.panel + 1, false);
    EntryAhead next = entry_ahead(call, index + 1, ceil_divide(end - begin, tile_rows_));
    for (int64_t row = begin; row < end; row += tile_rows_) {
      next.fetch();
      const int64_t rows = std::min(tile_rows_, end - row);
      bool see_the_same = true;
      std::pair<int64_t, int64_t> seen;
      for (int64_t i = 0; i < together_; ++i) {
        const std::span<AttentionRow> of_copy(buffers.rows + i * rows, static_cast<size_t>(rows));
        std::ranges::fill(of_copy, AttentionRow{});
        ids.find(buffers.entries[i], row, of_copy, buffers.counts, buffers.addends + i * rows * plan_.memory);
        const auto seen_by_copy = seen_by(of_copy, sizes_.panel);
        see_the_same &= i == 0 || seen_by_copy == seen;
        seen = seen_by_copy;
      }
      for (int64_t i = 0; i < together_; i += see_the_same ? together_ : 1) {
        Tile tile{call, buffers, i, see_the_same ? together_ : 1, rows};
        if (!see_the_same) seen = seen_by(tile.rows_of(0), sizes_.panel);
        std::tie(tile.first, tile.last) = seen;
        tile.shared = shared_end(tile);
        run_tile(tile, ids);
      }
    }
  }

  /// Without operands where nothing is fetched ahead.
  EntryAhead entry_ahead(const KernelCall& call, int64_t index, int64_t steps) const {
    if (in_place_ || parts_ > 1 || plan_.copies() > 1 || index >= plan_.entries ||
        !plan_.fetches_ahead(4, sizeof(T)))
      return {plan_, {}, steps};
    EntryAhead next(plan_, plan_.entry(index), steps);
    next.add_memory(Operand::kK, plan_.input<T>(call, Operand::kK));
    next.add_memory(Operand::kV, plan_.input<T>(call, Operand::kV));
    next.add_queries(Operand::kQ, plan_.input<T>(call, Operand::kQ), plan_.key);
    next.add_queries(AttentionPlan::kResult, call.output<T>(0), plan_.value);
    return next;
  }

  /// Returns the end of the entries that the copies share, if there are several.
  int64_t shared_end(const Tile& tile) const {
    if (tile.copies == 1 || !sums_continue<T>(plan_.value)) return tile.first;
    const int64_t prefix =
        plan_.input<int32_t>(tile.call, Operand::kSharedPrefix)[tile.entry_of(0)[Operand::kSharedPrefix]];
    return std::clamp(prefix, tile.first, tile.last);
  }

  void run_tile(const Tile& tile, const AttentionIds& ids) const {
    const Buffers& buffers = tile.buffers;
    make_logits(tile);
    for (int64_t i = 0; i < tile.copies; ++i) {
      const int64_t row = tile.row_of(i);
      exponentials(terms_of(tile.call, buffers, ids, tile.copy + i), tile.rows_of(i), tile.first, tile.last,
                   buffers.logits + row * logits_stride(), logits_stride(), buffers.log_sums + row,
                   buffers.scales + row);
    }
    sum_values(tile);
    C* log_sums = tile.call.template output<C>(1);
    for (int64_t i = 0; i < tile.copies; ++i) {
      const AttentionPlan::Entry& entry = tile.entry_of(i);
      const int64_t row = tile.row_of(i);
      const auto rows = tile.rows_of(i);
      save_rows(plan_, entry, rows, AttentionPlan::kResult, buffers.results + row * padded(plan_.value),
                buffers.scales + row, plan_.value, tile.call.template output<T>(0));
      for (size_t j = 0; j < rows.size(); ++j)
        log_sums[plan_.offset(entry, rows[j], AttentionPlan::kLogSum)] =
            buffers.log_sums[row + static_cast<int64_t>(j)];
    }
  }

  bool shares_bias(const Buffers& buffers, int64_t copy) const {
    return buffers.entries[copy][Operand::kBiasTable] == buffers.entries[0][Operand::kBiasTable];
  }
  /// `copy`: in the buffers.
  AttentionTerms<C> terms_of(const KernelCall& call, const Buffers& buffers, const AttentionIds& ids,
                             int64_t copy) const {
    C* bias = buffers.bias + (shares_bias(buffers, copy) ? 0 : copy * bias_size());
    return {plan_, buffers.entries[copy], ids, plan_.input<C>(call, Operand::kNoise), bias};
  }

  const T* keys(const Tile& tile, int64_t i) const {
    return plan_.input<T>(tile.call, Operand::kK) + tile.entry_of(i)[Operand::kK];
  }
  const T* values(const Tile& tile, int64_t i) const {
    return plan_.input<T>(tile.call, Operand::kV) + tile.entry_of(i)[Operand::kV];
  }

  void make_logits(const Tile& tile) const {
    const Buffers& buffers = tile.buffers;
    const T* queries = plan_.input<T>(tile.call, Operand::kQ);
    if (!in_place_) {
      pack(tile);
      const auto a = block_rows(plan_, tile.entry_of(0), tile.rows_of(0), Operand::kQ, queries, plan_.key,
                                buffers.queries);
      return multiply_panels(BlockProduct<C>{.rows = tile.rows,
                                             .depth = plan_.key,
                                             .a = a.data,
                                             .a_row_stride = a.stride,
                                             .a_depth_stride = 1,
                                             .c = buffers.logits,
                                             .c_row_stride = logits_stride()},
                             buffers.keys, plan_.memory, tile.first, tile.last);
    }
    const int64_t width = padded(plan_.key);
    const auto multiply = [&](int64_t i, int64_t copies, int64_t first, int64_t last) {
      if (first == last) return;
      const int64_t row = tile.row_of(i);
      multiply_in_place(keys(tile, i), plan_.key_stride, first, last, plan_.memory, plan_.key,
                        buffers.queries + row * width, copies * tile.rows,
                        buffers.logits + row * logits_stride(), logits_stride());
    };
    for (int64_t i = 0; i < tile.copies; ++i)
      load_rows(plan_, tile.entry_of(i), tile.rows_of(i), Operand::kQ, queries, plan_.key,
                buffers.queries + tile.row_of(i) * width);
    const int64_t own = tile.first + (tile.shared - tile.first) / sizes_.vector * sizes_.vector;
    multiply(0, tile.copies, tile.first, own);
    for (int64_t i = 0; i < tile.copies; ++i) multiply(i, 1, own, tile.last);
  }

  void sum_values(const Tile& tile) const {
    const Buffers& buffers = tile.buffers;
    const int64_t width = padded(plan_.value);
    if (!in_place_) {
      return multiply_block(BlockProduct<C>{.rows = tile.rows,
                                            .columns = width,
                                            .depth = tile.last - tile.first,
                                            .a = buffers.logits + tile.first,
                                            .a_row_stride = logits_stride(),
                                            .a_depth_stride = 1,
                                            .b = buffers.values + tile.first * width,
                                            .b_depth_stride = width,
                                            .c = buffers.results,
                                            .c_row_stride = width});
    }
    const auto sum = [&](int64_t i, int64_t copies, int64_t first, int64_t last) {
      if (first == last && first > tile.first) return;  // the sums are there; those of no entries are 0
      const int64_t row = tile.row_of(i);
      sum_in_place(values(tile, i), plan_.value_stride, first, last, plan_.value,
                   buffers.logits + row * logits_stride(), logits_stride(), copies * tile.rows,
                   buffers.results + row * width, first > tile.first);
    };
    if (tile.first < tile.shared) sum(0, tile.copies, tile.first, tile.shared);
    for (int64_t i = 0; i < tile.copies; ++i) sum(i, 1, tile.shared, tile.last);
  }

  /// Packs the panels of the entries that the tile sees and that have not been packed yet.
  void pack(const Tile& tile) const {
    const Buffers& buffers = tile.buffers;
    for (int64_t m = tile.first; m < tile.last; m += sizes_.panel) {
      bool& packed = buffers.packed[m / sizes_.panel];
      if (packed) continue;
      packed = true;
      const int64_t columns = std::min(sizes_.panel, plan_.memory - m);
      const int64_t key_stride = plan_.key_stride, stride = plan_.value_stride;
      pack_panel(keys(tile, 0) + m * key_stride, key_stride, columns, plan_.key,
                 buffers.keys + m * plan_.key);
      copy_rows(values(tile, 0) + m * stride, stride, columns, plan_.value,
                buffers.values + m * padded(plan_.value));
    }
  }

  AttentionPlan plan_;
  BlockSizes sizes_;
  bool in_place_;
  int64_t together_;  ///< copies of an entry that are computed together
  int64_t tile_rows_;
  int64_t entries_per_task_ = 1, parts_ = 1;  ///< parts into which the rows of an entry are cut
};

template <class T>
std::unique_ptr<Kernel> attention_kernel(const KernelContext& context) {
  return std::make_unique<AttentionKernel<T>>(context);
}

const KernelRegistration attention_f32("attention", {DType::kFloat32}, attention_kernel<float>);
const KernelRegistration attention_f64("attention", {DType::kFloat64}, attention_kernel<double>);
const KernelRegistration attention_bf16("attention", {DType::kBFloat16}, attention_kernel<BFloat16>);

}  // namespace
}  // namespace mtf
