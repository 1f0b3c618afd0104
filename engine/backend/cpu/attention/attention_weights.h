// From logits to weights, a row at a time, and back in the gradient. Rows of logits are [memory] long; what a
// row does not see is 0 in the result, over [begin, end) of the whole block.
#pragma once

#include <limits>
#include <span>

#include "engine/backend/cpu/attention/attention_plan.h"

namespace mtf {

/// What is added to and multiplied with the rows of an entry.
template <class C>
struct AttentionTerms {
  const AttentionPlan& plan;
  const AttentionPlan::Entry& entry;
  const AttentionIds& ids;
  const C* noise;  ///< the whole operand; null: none
  C* bias;         ///< of an entry: [heads][relative_positions()]

  /// All of its entries have weight 1.
  bool sees_nothing(const AttentionRow& row) const {
    return row.visible.hidden_by > 0 && !(plan.extra_logit > -std::numeric_limits<double>::infinity());
  }
  static int64_t relative_positions(const AttentionPlan& plan) { return 2 * plan.max_distance + 1; }
};

/// Fills terms.bias from the table.
template <class C>
void set_bias(const AttentionTerms<C>& terms, const C* table);
/// The other way round: the sums of d_bias [heads][relative_positions()] by bucket.
template <class C>
void sum_buckets(const AttentionTerms<C>& terms, const C* d_bias, C* output);

/// Rows of logits become rows of weights that are still to be multiplied with scales[i].
template <class C>
void exponentials(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows, int64_t begin,
                  int64_t end, C* logits, int64_t stride, C* log_sums, C* scales);

/// Rows of logits become weights (times noise), and rows of the weights' gradients those of the logits;
/// deltas: the products of result and its gradient. d_bias: added to; null: not wanted.
template <class C>
void weight_gradients(const AttentionTerms<C>& terms, std::span<const AttentionRow> rows, int64_t begin,
                      int64_t end, C* logits, C* d_weights, int64_t stride, const C* log_sums,
                      const C* deltas, C* d_bias);

}  // namespace mtf
