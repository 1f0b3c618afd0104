#include "engine/backend/cpu/attention/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/backend/cpu/elementwise/cpu_math.h"
#include "engine/backend/cpu/rows/row_buffers.h"
#include "engine/base/dispatch.h"
#include "engine/base/reproducible_math.h"

namespace mtf {
namespace {

/// Calls visit(m, place) for the entries m that the row sees, where `place` is the index into the bias. If
/// the memory's positions are its indices, calls instead constant(begin, end, place) for a run of entries
/// with the same place and following(begin, end, place) for one with consecutive places.
template <class Constant, class Following, class Visit>
MTF_INLINE void for_each_place(const AttentionRow& row, const int32_t* positions, int64_t farthest,
                               Constant constant, Following following, Visit visit) {
  const int64_t begin = row.visible.begin, end = row.visible.end;
  if (positions == nullptr) {
    const int64_t near = std::clamp(row.position - farthest, begin, end);
    const int64_t far = std::clamp(row.position + farthest, near, end);
    constant(begin, near, 0);
    following(near, far, near - row.position + farthest);
    constant(far, end, 2 * farthest);
  } else {
    const auto position = static_cast<int32_t>(row.position), most = static_cast<int32_t>(farthest);
    for (int64_t m = begin; m < end; ++m) visit(m, std::clamp(positions[m] - position, -most, most) + most);
  }
}

template <class C>
MTF_INLINE void add_bias(const AttentionTerms<C>& terms, const AttentionRow& row, C* x) {
  const int64_t farthest = terms.plan.max_distance;
  const C* bias = terms.bias + row.head * terms.relative_positions(terms.plan);
  for_each_place(
      row, terms.ids.positions(terms.entry, row), farthest,
      [&](int64_t begin, int64_t end, int64_t place) {
        const C addend = bias[place];
        for (int64_t m = begin; m < end; ++m) x[m] += addend;
      },
      [&](int64_t begin, int64_t end, int64_t place) {
        const C* addends = bias + place - begin;
#pragma GCC ivdep
        for (int64_t m = begin; m < end; ++m) x[m] += addends[m];
      },
      [&](int64_t m, int32_t place) { x[m] += bias[place]; });
}

template <class C>
MTF_INLINE void collect_bias(const AttentionTerms<C>& terms, const AttentionRow& row, const C* dx,
                             C* d_bias) {
  const int64_t farthest = terms.plan.max_distance;
  C* sums = d_bias + row.head * terms.relative_positions(terms.plan);
  for_each_place(
      row, terms.ids.positions(terms.entry, row), farthest,
      [&](int64_t begin, int64_t end, int64_t place) {
        C sum = 0;
        for (int64_t m = begin; m < end; ++m) sum += dx[m];
        sums[place] += sum;
      },
      [&](int64_t begin, int64_t end, int64_t place) {
        C* to = sums + place - begin;
#pragma GCC ivdep
        for (int64_t m = begin; m < end; ++m) to[m] += dx[m];
      },
      [&](int64_t m, int32_t place) { sums[place] += dx[m]; });
}

/// Bounds q.k by the soft cap, if there is one, and fills terms.slopes, unless it is null.
template <class C>
MTF_INLINE void cap_logits(const AttentionTerms<C>& terms, const AttentionRow& row, C* x) {
  if (terms.plan.soft_cap == 0) return;
  const C cap = static_cast<C>(terms.plan.soft_cap), part = static_cast<C>(1 / terms.plan.soft_cap);
  C* const slopes = terms.slopes;
  if (slopes == nullptr) {
#pragma GCC ivdep
    for (int64_t m = row.visible.begin; m < row.visible.end; ++m) x[m] = cap * CpuMath::tanh(x[m] * part);
  } else {
#pragma GCC ivdep
    for (int64_t m = row.visible.begin; m < row.visible.end; ++m) {
      const C share = CpuMath::tanh(x[m] * part);
      x[m] = cap * share;
      slopes[m] = C(1) - share * share;
    }
  }
}

/// Adds bias and masks to the logits of the entries that the row sees.
template <class C>
MTF_INLINE void complete_logits(const AttentionTerms<C>& terms, const AttentionRow& row, C* x) {
  const VisibleEntries& visible = row.visible;
  if (visible.hidden_by > 0) {
    std::fill(x + visible.begin, x + visible.end, C(0));
  } else if (terms.plan.max_distance > 0) {
    add_bias(terms, row, x);
  }
  if (visible.addend != nullptr) {
    for (int64_t m = visible.begin; m < visible.end; ++m) x[m] += static_cast<C>(visible.addend[m]);
  }
}

template <class C>
MTF_INLINE void clear_hidden(const AttentionRow& row, int64_t begin, int64_t end, C* x) {
  if (begin < row.visible.begin) std::fill(x + begin, x + row.visible.begin, C(0));
  if (row.visible.end < end) std::fill(x + row.visible.end, x + end, C(0));
}

template <class C>
MTF_INLINE const C* noise_of(const AttentionTerms<C>& terms, const AttentionRow& row) {
  return terms.noise != nullptr
             ? terms.noise + terms.plan.offset(terms.entry, row, AttentionOperation::kNoise)
             : nullptr;
}

template <class C>
MTF_INLINE void rows_of_exponentials(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows,
                                     int64_t begin, int64_t end, C* logits, int64_t stride, C* log_sums,
                                     C* scales) {
  const auto count = static_cast<int64_t>(rows.size());
  for (int64_t i = 0; i < count; ++i, logits += stride) {
    const AttentionRow& row = rows[static_cast<size_t>(i)];
    C* x = logits;
    cap_logits(terms, row, x);
    complete_logits(terms, row, x);
    const int64_t first = row.visible.begin, last = row.visible.end;
    const C extra = static_cast<C>(terms.plan.extra_logit + 1e9 * row.visible.hidden_by);
    C top = std::max(maximum_of(x + first, last - first), extra);
    if (top == -std::numeric_limits<C>::infinity()) top = 0;
    C sum = 0;
    if (const C* noise = noise_of(terms, row)) {
#pragma GCC ivdep
      for (int64_t m = first; m < last; ++m) {
        const C e = CpuMath::exp_of_nonpositive(x[m] - top);
        sum += e;
        x[m] = e * noise[m];
      }
    } else {
#pragma GCC ivdep
      for (int64_t m = first; m < last; ++m) {
        const C e = CpuMath::exp_of_nonpositive(x[m] - top);
        sum += e;
        x[m] = e;
      }
    }
    clear_hidden(row, begin, end, x);
    log_sums[i] = top;
    scales[i] = sum;
  }
  const C extra_logit = static_cast<C>(terms.plan.extra_logit);
  if (extra_logit > -std::numeric_limits<C>::infinity()) {
    for (int64_t i = 0; i < count; ++i) {
      const int32_t hidden_by = rows[static_cast<size_t>(i)].visible.hidden_by;
      scales[i] +=
          CpuMath::exp_of_nonpositive(extra_logit + C(1e9) * static_cast<C>(hidden_by) - log_sums[i]);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    log_sums[i] += CpuMath::log(scales[i]);
    scales[i] = terms.sees_nothing(rows[static_cast<size_t>(i)]) ? C(1) : C(1) / scales[i];
  }
}

template <class C>
MTF_INLINE void rows_of_gradients(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows,
                                  int64_t begin, int64_t end, C* logits, C* d_weights, int64_t stride,
                                  const C* log_sums, const C* deltas, C* d_bias) {
  for (const AttentionRow& row : rows) {
    C *x = logits, *d = d_weights;
    cap_logits(terms, row, x);
    complete_logits(terms, row, x);
    const C log_sum = *log_sums++, delta = *deltas++;
    const int64_t first = row.visible.begin, last = row.visible.end;
    const C factor = terms.sees_nothing(row) ? reproducible::exp(log_sum) : C(1);
    if (const C* noise = noise_of(terms, row)) {
#pragma GCC ivdep
      for (int64_t m = first; m < last; ++m) {
        const C weight = CpuMath::exp_of_nonpositive(x[m] - log_sum), multiplier = factor * noise[m];
        d[m] = weight * (d[m] * multiplier - delta);
        x[m] = weight * multiplier;
      }
    } else {
#pragma GCC ivdep
      for (int64_t m = first; m < last; ++m) {
        const C weight = CpuMath::exp_of_nonpositive(x[m] - log_sum);
        d[m] = weight * (d[m] * factor - delta);
        x[m] = weight * factor;
      }
    }
    clear_hidden(row, begin, end, x);
    clear_hidden(row, begin, end, d);
    if (d_bias != nullptr) collect_bias(terms, row, d, d_bias);
    if (terms.slopes != nullptr) {
      const C* slopes = terms.slopes;
#pragma GCC ivdep
      for (int64_t m = first; m < last; ++m) d[m] *= slopes[m];
    }
    logits += stride;
    d_weights += stride;
  }
}

}  // namespace

template <class C>
void set_bias(const AttentionTerms<C>& terms, const C* table) {
  const AttentionPlan& plan = terms.plan;
  C* to = terms.bias;
  for (AttentionRow row; row.head < plan.heads; ++row.head) {
    const C* values = table + plan.offset(terms.entry, row, AttentionOperation::kBiasTable);
    for (int32_t bucket : plan.buckets) *to++ = values[bucket];
  }
}

template <class C>
void sum_buckets(const AttentionTerms<C>& terms, const C* d_bias, C* output) {
  const AttentionPlan& plan = terms.plan;
  for (AttentionRow row; row.head < plan.heads; ++row.head) {
    C* sums = output + plan.offset(terms.entry, row, AttentionPlan::kDBias);
    std::fill(sums, sums + plan.bucket_count, C(0));
    for (int32_t bucket : plan.buckets) sums[bucket] += *d_bias++;
  }
}

template <class C>
void exponentials(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows, int64_t begin,
                  int64_t end, C* logits, int64_t stride, C* log_sums, C* scales) {
  dispatched<rows_of_exponentials<C>>(terms, rows, begin, end, logits, stride, log_sums, scales);
}

template <class C>
void weight_gradients(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows, int64_t begin,
                      int64_t end, C* logits, C* d_weights, int64_t stride, const C* log_sums,
                      const C* deltas, C* d_bias) {
  dispatched<rows_of_gradients<C>>(terms, rows, begin, end, logits, d_weights, stride, log_sums, deltas,
                                   d_bias);
}

template void set_bias(const AttentionTerms<float>&, const float*);
template void set_bias(const AttentionTerms<double>&, const double*);
template void sum_buckets(const AttentionTerms<float>&, const float*, float*);
template void sum_buckets(const AttentionTerms<double>&, const double*, double*);
template void exponentials(const AttentionTerms<float>&, std::span<const AttentionRow>, int64_t, int64_t,
                           float*, int64_t, float*, float*);
template void exponentials(const AttentionTerms<double>&, std::span<const AttentionRow>, int64_t, int64_t,
                           double*, int64_t, double*, double*);
template void weight_gradients(const AttentionTerms<float>&, std::span<const AttentionRow>, int64_t, int64_t,
                               float*, float*, int64_t, const float*, const float*, float*);
template void weight_gradients(const AttentionTerms<double>&, std::span<const AttentionRow>, int64_t, int64_t,
                               double*, double*, int64_t, const double*, const double*, double*);

}  // namespace mtf
