#include "engine/ops/attention_masks.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/indexing.h"
#include "engine/ops/unary.h"

namespace mtf {
namespace {

/// Positions of queries and memory, and masks made of them.
class DenseMasks {
 public:
  DenseMasks(const AttentionInputs& inputs, const AttentionOptions& options, const Dimension& memory,
             DType dtype)
      : in_(inputs), options_(options), graph_(inputs.q.graph()), memory_(memory), dtype_(dtype) {}

  Tensor relative_position() {
    const Tensor memory = in_.memory_position ? in_.memory_position : memory_index();
    const Tensor query = in_.query_position ? in_.query_position : query_index();
    return subtract(memory, query, query.shape() + memory.shape());
  }

  Tensor sum() {
    const auto all = [](const Tensor& a, const Tensor& b) { return a.shape() + b.shape(); };
    if (in_.query_segment)
      mask(not_equal(in_.query_segment, in_.memory_segment, all(in_.query_segment, in_.memory_segment)));
    if (options_.causal || in_.query_priority || in_.memory_priority) {
      const Tensor query = in_.query_priority ? in_.query_priority : query_index();
      const Tensor memory = in_.memory_priority ? in_.memory_priority : memory_index();
      mask(less(query, memory, all(query, memory)));
    }
    if (options_.min_relative) mask(less(relative_position(), constant(*options_.min_relative)));
    if (options_.max_relative) mask(greater(relative_position(), constant(*options_.max_relative)));
    return sum_;
  }

 private:
  Tensor memory_index() { return range(graph_, memory_); }
  Tensor query_index() {
    const auto axis = in_.q.shape().find(options_.query_length);
    return axis ? range(graph_, in_.q.shape()[*axis]) : constant(0);
  }
  Tensor constant(int64_t value) { return graph_.constant(static_cast<double>(value), DType::kInt32); }

  void mask(const Tensor& hidden) {
    const Tensor addend = scalar_multiply(cast(hidden, dtype_), -1e9);
    sum_ = sum_ ? add(sum_, addend, sum_.shape() + addend.shape()) : addend;
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
  Graph& graph_;
  Dimension memory_;
  DType dtype_;
  Tensor sum_;
};

}  // namespace

Tensor attention_masks(const AttentionInputs& inputs, const AttentionOptions& options,
                       const Dimension& memory, DType dtype) {
  return DenseMasks(inputs, options, memory, dtype).sum();
}

Tensor attention_bias(const AttentionInputs& inputs, const AttentionOptions& options, const Dimension& memory,
                      DType dtype) {
  const Tensor& table = inputs.bias_table;
  const Dimension& last = table.shape()[table.shape().rank() - 1];
  const RelativeBuckets buckets{options.bidirectional, last.size, options.max_distance};
  const Tensor relative = DenseMasks(inputs, options, memory, dtype).relative_position();
  return cast(gather(table, relative_bucket(relative, buckets), last.name), dtype);
}

}  // namespace mtf
