// Converts logits to weights, one row at a time, and computes the gradient of this step. Rows of logits have
// [memory] elements. In the result, entries of the block's whole interval [begin, end) that a row does not
// see are 0.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "engine/backend/cpu/attention/attention_plan.h"

namespace mtf {

/// The terms that are added to the logits and multiplied with the weights of an entry.
template <class C>
struct AttentionTerms {
  const AttentionPlan& plan;
  const AttentionPlan::Entry& entry;
  const AttentionIds& ids;
  const C* noise;  ///< the whole operand; null if absent
  C* bias;         ///< bias of an entry: [heads][relative_positions()]
  /// [memory], for gradients under a soft cap: the derivatives of a row's capped logits with respect to q.k.
  C* slopes = nullptr;

  /// True if the row sees no entry and there is no extra logit: all of its entries then have weight 1.
  bool sees_nothing(const AttentionRow& row) const {
    return row.visible.hidden_by > 0 && !(plan.extra_logit > -std::numeric_limits<double>::infinity());
  }
  static int64_t relative_positions(const AttentionPlan& plan) { return 2 * plan.max_distance + 1; }
};

/// Fills terms.bias from the bias table.
template <class C>
void set_bias(const AttentionTerms<C>& terms, const C* table);
/// The inverse of set_bias for gradients: sums d_bias [heads][relative_positions()] by bucket.
template <class C>
void sum_buckets(const AttentionTerms<C>& terms, const C* d_bias, C* output);

/// Turns rows of logits into rows of weights that still have to be multiplied by scales[i].
template <class C>
void exponentials(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows, int64_t begin,
                  int64_t end, C* logits, int64_t stride, C* log_sums, C* scales);

/// Turns rows of logits into weights (times noise), and rows of the weights' gradients into gradients of the
/// logits. deltas[i] is the dot product of row i of the result and of its gradient. Bias gradients are added
/// to `d_bias`, unless it is null.
template <class C>
void weight_gradients(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows, int64_t begin,
                      int64_t end, C* logits, C* d_weights, int64_t stride, const C* log_sums,
                      const C* deltas, C* d_bias);

}  // namespace mtf
