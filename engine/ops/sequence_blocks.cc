#include "engine/ops/sequence_blocks.h"

#include <algorithm>

#include "engine/graph/gradients.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/halo.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

/// Returns a name that no rule splits and no operand has.
std::string free_name(std::string name, const AttentionInputs& in, const LayoutMap& rules) {
  while (rules.splits(name) || in.q.shape().contains(name) || in.v.shape().contains(name)) name += '_';
  return name;
}

bool has_priorities(const AttentionInputs& in) { return in.query_priority || in.memory_priority; }

/// Returns the largest index, relative to a query, of an entry that it sees; nothing if there is no limit.
std::optional<int64_t> max_relative(const AttentionInputs& in, const AttentionOptions& options) {
  if (!options.causal || has_priorities(in)) return options.max_relative;
  return std::min<int64_t>(options.max_relative.value_or(0), 0);
}

}  // namespace

SequenceBlocks::SequenceBlocks(const AttentionInputs& in, const AttentionOptions& options,
                               const LayoutMap& rules)
    : length_(in.q.shape().dimension(options.query_length)),
      blocks_{length_.name, rules.parts(length_.name)},
      queries_{free_name("query_block", in, rules), length_.size / blocks_.size},
      entries_(free_name("memory_block", in, rules)),
      in_blocks_(narrow_band(in, options)),
      // New handles, because operands may be the same tensor.
      k_(identity(in.k)),
      v_(in.v == in.k ? k_ : identity(in.v)),
      inputs_(in),
      options_(options) {
  options_.memory_length = entries_;
  inputs_.q = cut(in.q);
  inputs_.k = extended(k_);
  inputs_.v = v_ == k_ ? inputs_.k : extended(v_);
  inputs_.memory_position = extended(in.memory_position);
  inputs_.noise = extended(in.noise);
  inputs_.shared_prefix = {};  // the memory of a block does not begin with the first entries
  if (!in_blocks_) {
    inputs_.memory_segment = extended(in.memory_segment);
    inputs_.memory_priority = extended(in.memory_priority);
    return;
  }
  options_.query_length = queries_.name;
  options_.min_relative = *options.min_relative + reach_;
  options_.max_relative = *max_relative(in, options) + reach_;
  set_segments(in);
  set_priorities(in);
}

bool SequenceBlocks::narrow_band(const AttentionInputs& in, const AttentionOptions& options) {
  const std::optional<int64_t> last = max_relative(in, options);
  // Given positions and the buckets of the bias refer to the whole sequence.
  const bool by_index = !in.query_position && !in.memory_position && !in.bias_table;
  if (blocks_.size == 1 || !by_index || !options.min_relative || !last) return false;
  left_only_ = *last <= 0;
  reach_ = std::max({-*options.min_relative, *last, int64_t{0}});
  return (left_only_ ? reach_ : 2 * reach_) < length_.size - queries_.size;
}

Tensor SequenceBlocks::cut(const Tensor& x) const {
  if (!in_blocks_ || !x || !x.shape().contains(length_.name)) return x;
  return replace_dimensions(x, {length_}, {blocks_, queries_});
}

Tensor SequenceBlocks::joined(const Tensor& x) const {
  return in_blocks_ ? replace_dimensions(x, {blocks_, queries_}, {length_}) : x;
}

Tensor SequenceBlocks::extended(const Tensor& x) const {
  if (!x) return x;
  if (!in_blocks_) return rename(x, length_.name, entries_);
  const Tensor cut = replace_dimensions(x, {length_}, {blocks_, {entries_, queries_.size}});
  return left_only_ ? left_halo_exchange(cut, blocks_, entries_, reach_)
                    : halo_exchange(cut, blocks_, entries_, reach_);
}

/// Halos beyond the ends are zero, so segment 0 stands for entries that do not exist.
void SequenceBlocks::set_segments(const AttentionInputs& in) {
  Graph& graph = in.q.graph();
  if (in.memory_segment) {
    inputs_.query_segment = cut(scalar_add(in.query_segment, 1));
    inputs_.memory_segment = extended(scalar_add(in.memory_segment, 1));
    return;
  }
  const Dimension entries = inputs_.k.shape().dimension(entries_);
  const Tensor first = scalar_add(scalar_multiply(range(graph, blocks_), static_cast<double>(queries_.size)),
                                  static_cast<double>(-reach_));
  const Tensor index = add(first, range(graph, entries), Shape{blocks_, entries});
  const auto constant = [&graph](int64_t value) {
    return graph.constant(static_cast<double>(value), DType::kInt32);
  };
  const Tensor inside = logical_and(greater_equal(index, constant(0)), less(index, constant(length_.size)));
  inputs_.query_segment = constant(1);
  inputs_.memory_segment = cast(inside, DType::kInt32);
}

/// Masks by index are contained in max_relative.
void SequenceBlocks::set_priorities(const AttentionInputs& in) {
  options_.causal = false;
  if (!has_priorities(in)) return;
  const auto given = [&](const Tensor& x) { return x ? x : range(in.q.graph(), length_); };
  inputs_.query_priority = cut(given(in.query_priority));
  inputs_.memory_priority = extended(given(in.memory_priority));
}

SequenceBlocks::MemoryGradients SequenceBlocks::memory_gradients(const Tensor& dk, const Tensor& dv) const {
  if (v_ == k_) {
    const Tensor both = gradients({inputs_.k}, {k_}, {add(dk, dv)})[0];
    return {both, both.graph().constant(0, both.dtype(), both.shape())};
  }
  const Tensors each = gradients({inputs_.k, inputs_.v}, {k_, v_}, {dk, dv});
  return {each[0], each[1]};
}

}  // namespace mtf
