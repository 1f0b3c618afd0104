// Attention on the CPU. For as many queries at a time as a tile of a matrix product has rows, the kernel
// computes the logits over the memory that they see (in L1 or L2), the exponentials, and the weighted sum of
// the values. Keys (packed for products) and values are copied once for each task, so that strides do not
// matter; queries are read in place where possible.
//
// With very few queries (decoding), keys and values are read in place, once for up to eight rows of the heads that
// share them.
#include "engine/ops/attention.h"

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
/// Small entries are combined into tasks of about this many FLOPs; if there are few entries, they are cut
/// into tasks of at least kRowsPerTask queries.
constexpr int64_t kFlopsPerTask = 2 << 20;
constexpr int64_t kMostTasks = 32, kRowsPerTask = 128;

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

/// results[i] = sum over m of weights[i][m] * values[m], by thin products where values are whole vectors.
template <class T>
void sum_in_place(const T* values, int64_t stride, int64_t begin, int64_t end, int64_t columns,
                  const Computed<T>* weights, int64_t weights_stride, int64_t rows, Computed<T>* results) {
  if constexpr (!std::is_same_v<T, double>) {
    const GemmKernels& kernels = gemm_kernels(instruction_set());
    if (columns % kernels.vector_width == 0 && begin < end) {
      mtf::multiply(ThinProduct<T>{.columns = columns,
                                   .depth = end - begin,
                                   .block = end - begin,
                                   .a = weights + begin,
                                   .a_row_stride = weights_stride,
                                   .b = values + begin * stride,
                                   .b_column_stride = 1,
                                   .b_depth_stride = stride,
                                   .c = results,
                                   .c_row_stride = padded(columns)},
                    rows, kernels);
      return;
    }
  }
  dispatched<sum_one_by_one<T>>(values, stride, begin, end, columns, weights, weights_stride, rows, results);
}

template <class T>
class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const KernelContext& context)
      : plan_(context), sizes_(block_sizes<C>()), in_place_(plan_.queries < kFewQueries) {
    const int64_t flops = std::max<int64_t>(1, plan_.flops(plan_.rows(), 1, 1));
    entries_per_task_ = std::clamp<int64_t>(kFlopsPerTask / flops, 1, plan_.entries);
    if (!in_place_ && entries_per_task_ == 1) {
      parts_ = std::clamp<int64_t>(plan_.rows() / kRowsPerTask, 1,
                                   (kMostTasks + plan_.entries - 1) / plan_.entries);
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
        run_entry(call, buffers, entry, row, end_row);
        flops += plan_.flops(end_row - row, 1, 1);
      }
    }
    return flops;
  }

 private:
  using C = Computed<T>;

  struct Buffers {
    Buffers(const AttentionKernel& kernel, ScratchParts& parts) {
      const AttentionPlan& plan = kernel.plan_;
      const int64_t rows = kernel.tile_rows_;
      queries = parts.take<C>(rows * padded(plan.key));
      logits = parts.take<C>(rows * kernel.logits_stride());
      results = parts.take<C>(rows * padded(plan.value));
      log_sums = parts.take<C>(kMaximalTileRows);
      scales = parts.take<C>(kMaximalTileRows);
      bias = parts.take<C>(plan.heads * static_cast<int64_t>(plan.buckets.size()));
      counts = parts.take<int32_t>(plan.masked ? plan.memory : 0);
      addends = parts.take<float>(plan.masked ? rows * plan.memory : 0);
      if (kernel.in_place_) return;
      keys = parts.take<C>((plan.memory + kernel.sizes_.panel) * plan.key);
      values = parts.take<C>(plan.memory * padded(plan.value));
      packed = parts.take<bool>(plan.memory / kernel.sizes_.panel + 1);
    }

    C *queries, *logits, *results, *log_sums, *scales, *bias;
    int32_t* counts;
    float* addends;
    C *keys = nullptr, *values = nullptr;
    bool* packed = nullptr;  ///< by panel of keys: it and the values of its entries are packed
  };

  /// The distance between rows of logits is not a power of two, so that they fall into different cache sets.
  int64_t logits_stride() const { return (plan_.memory + sizes_.panel) / 16 * 16 + 16; }

  /// The entry that is being computed.
  struct Work {
    const KernelCall& call;
    const Buffers& buffers;
    AttentionPlan::Entry entry;
    const T *keys, *values;
  };

  void run_entry(const KernelCall& call, const Buffers& buffers, int64_t index, int64_t begin,
                 int64_t end) const {
    const AttentionPlan::Entry entry = plan_.entry(index);
    const Work work{call, buffers, entry, plan_.input<T>(call, Operand::kK) + entry[Operand::kK],
                    plan_.input<T>(call, Operand::kV) + entry[Operand::kV]};
    AttentionIds ids(plan_, call);
    const AttentionTerms<C> terms{plan_, entry, ids, plan_.input<C>(call, Operand::kNoise), buffers.bias};
    if (const C* table = plan_.input<C>(call, Operand::kBiasTable)) set_bias(terms, table);
    if (!in_place_) std::fill(buffers.packed, buffers.packed + plan_.memory / sizes_.panel + 1, false);
    AttentionRow rows_of_tile[kMaximalTileRows];
    for (int64_t row = begin; row < end; row += tile_rows_) {
      const std::span<AttentionRow> rows(rows_of_tile, static_cast<size_t>(std::min(tile_rows_, end - row)));
      ids.find(entry, row, rows, buffers.counts, buffers.addends);
      const auto [first, last] = seen_by(rows, sizes_.panel);
      make_logits(work, rows, first, last);
      exponentials(terms, rows, first, last, buffers.logits, logits_stride(), buffers.log_sums,
                   buffers.scales);
      sum_values(work, static_cast<int64_t>(rows.size()), first, last);
      save_rows(plan_, entry, rows, AttentionPlan::kResult, buffers.results, buffers.scales, plan_.value,
                call.output<T>(0));
      C* log_sums = call.output<C>(1);
      for (size_t i = 0; i < rows.size(); ++i)
        log_sums[plan_.offset(entry, rows[i], AttentionPlan::kLogSum)] = buffers.log_sums[i];
    }
  }

  void make_logits(const Work& work, std::span<const AttentionRow> rows, int64_t first, int64_t last) const {
    const Buffers& buffers = work.buffers;
    const T* queries = plan_.input<T>(work.call, Operand::kQ);
    const auto count = static_cast<int64_t>(rows.size());
    if (in_place_) {
      load_rows(plan_, work.entry, rows, Operand::kQ, queries, plan_.key, buffers.queries);
      multiply_in_place(work.keys, plan_.key_stride, first, last, plan_.memory, plan_.key, buffers.queries,
                        count, buffers.logits, logits_stride());
      return;
    }
    pack(work, first, last);
    const auto a = block_rows(plan_, work.entry, rows, Operand::kQ, queries, plan_.key, buffers.queries);
    multiply_panels(BlockProduct<C>{.rows = count,
                                    .depth = plan_.key,
                                    .a = a.data,
                                    .a_row_stride = a.stride,
                                    .a_depth_stride = 1,
                                    .c = buffers.logits,
                                    .c_row_stride = logits_stride()},
                    buffers.keys, plan_.memory, first, last);
  }

  void sum_values(const Work& work, int64_t rows, int64_t first, int64_t last) const {
    const Buffers& buffers = work.buffers;
    if (in_place_) {
      sum_in_place(work.values, plan_.value_stride, first, last, plan_.value, buffers.logits, logits_stride(),
                   rows, buffers.results);
      return;
    }
    const int64_t width = padded(plan_.value);
    multiply_block(BlockProduct<C>{.rows = rows,
                                   .columns = width,
                                   .depth = last - first,
                                   .a = buffers.logits + first,
                                   .a_row_stride = logits_stride(),
                                   .a_depth_stride = 1,
                                   .b = buffers.values + first * width,
                                   .b_depth_stride = width,
                                   .c = buffers.results,
                                   .c_row_stride = width});
  }

  /// Packs the panels of entries first ... last - 1 that have not been packed yet.
  void pack(const Work& work, int64_t first, int64_t last) const {
    const Buffers& buffers = work.buffers;
    for (int64_t m = first; m < last; m += sizes_.panel) {
      bool& packed = buffers.packed[m / sizes_.panel];
      if (packed) continue;
      packed = true;
      const int64_t columns = std::min(sizes_.panel, plan_.memory - m);
      const int64_t key_stride = plan_.key_stride, stride = plan_.value_stride;
      pack_panel(work.keys + m * key_stride, key_stride, columns, plan_.key, buffers.keys + m * plan_.key);
      copy_rows(work.values + m * stride, stride, columns, plan_.value,
                buffers.values + m * padded(plan_.value));
    }
  }

  AttentionPlan plan_;
  BlockSizes sizes_;
  bool in_place_;
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
