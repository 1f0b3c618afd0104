// Attention over dimension names as one operation: softmax(q.k + bias) . v with masks, relative position
// bias and dropout, and its gradient. No tensor of length x memory_length is kept: the weights are made row
// by row and made again in the gradient.
//
//   attention({.q = q, .k = k, .v = v, .query_segment = s, .memory_segment = t}, {.causal = true})
//   // q: [batch, length, heads, d_kv]; k, v: [batch, memory_length, heads, d_kv]
//   // -> [batch, length, heads, d_kv]
//
// Logits, weights and sums are float32 for bfloat16 operands (docs/numerics.md "What stays float32").
#pragma once

#include <array>
#include <optional>
#include <string>

#include "engine/graph/graph.h"
#include "engine/ops/fused.h"
#include "engine/ops/relative_bucket.h"

namespace mtf {

/// Null tensors are absent. Dimensions may be declared in any order; the kernels read without a copy where
/// the last one is that of `key`, `value`, memory_length or the buckets.
struct AttentionInputs {
  Tensor q;  ///< [batch.., heads.., length, key]; `length` may be missing (one query: decoding). Not scaled.
  Tensor k;  ///< [.., memory_length, key]; may lack dimensions of q (heads: multi-query), then all share it
  Tensor v;  ///< [.., memory_length, value]; the other dimensions are those of k; k itself where shared
  /// int32, any of q's dimensions but `key`, and memory_length in place of length in those of the memory. A
  /// query sees entries of its own segment (both are given or none) ...
  Tensor query_segment = {}, memory_segment = {};
  /// ... whose priority is not above its own. If one is given, or options.causal, null is the index in the
  /// row (0 for a query without length).
  Tensor query_priority = {}, memory_priority = {};
  /// For the bias and min_relative, max_relative. Null: the index in the row.
  Tensor query_position = {}, memory_position = {};
  /// [heads.., buckets], the buckets last: added to the logits by relative_bucket(memory position - query
  /// position). Any of q's dimensions but length and key.
  Tensor bias_table = {};
  /// What the weights are multiplied by (dropout: 0 or 1 / keep): memory_length, and any of q's dimensions
  /// but `key`, usually all but length.
  Tensor noise = {};
};

struct AttentionOptions {
  std::string query_length = "length";
  /// That of query_length: the queries' own sequence. Each of them must see an entry of it (itself); where
  /// the length is split, no more of the memory is exchanged than the masks by index leave visible.
  std::string memory_length = "memory_length";
  std::string key = "d_kv";    ///< contracted between q and k
  std::string value = "d_kv";  ///< of v, and of the result in place of `key`
  /// Memory entries behind the query's index are invisible, see AttentionInputs::query_priority.
  bool causal = false;
  /// Visible: min_relative <= memory position - query position <= max_relative.
  std::optional<int64_t> min_relative = {}, max_relative = {};
  /// One more logit that takes its share of the softmax and is dropped.
  std::optional<double> extra_logit = {};
  /// Of the buckets of the bias.
  bool bidirectional = true;
  int64_t max_distance = 128;
};

/// q's dimensions, in its order, with `key` replaced by `value`. Each mask that hides an entry adds -1e9 to
/// its logit, and a query that sees nothing gets the sum of all values (each weight is 1: in float32 -1e9
/// swallows the logarithm of their number), or 0 with an extra logit. Throws Error for dimensions and dtypes
/// that do not fit.
Tensor attention(const AttentionInputs& inputs, const AttentionOptions& options = {});

/// The same from contractions, dense masks and softmax: what the operation expands to where memory_length (of
/// another sequence) or `key` is split, and the form that it is tested against.
Tensor composed_attention(const AttentionInputs& inputs, const AttentionOptions& options = {});

struct AttentionOperands {
  /// In the order of the inputs.
  enum Operand {
    kQ,
    kK,
    kV,
    kQuerySegment,
    kMemorySegment,
    kQueryPriority,
    kMemoryPriority,
    kQueryPosition,
    kMemoryPosition,
    kBiasTable,
    kNoise,
  };
  static constexpr int kOperands = kNoise + 1;
};

/// Common parts of attention and its gradient. Operands have their row dimension last, the table and the
/// noise the accumulation dtype.
class AttentionOperation : public Operation, public AttentionOperands {
 public:
  /// Which input an operand is; -1: absent.
  using OperandIndex = std::array<int, kOperands>;

  AttentionOperation(Tensors inputs, std::vector<OutputInfo> outputs, const AttentionOptions& options,
                     const OperandIndex& index)
      : Operation(std::move(inputs), std::move(outputs)), options(options), index(index) {}
  std::string attributes() const override;
  /// All dimensions of logits and result, and the buckets.
  Shape joint_shape() const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  /// The memory is the queries' own sequence.
  bool within_sequence() const;
  bool has(Operand operand) const { return index[operand] >= 0; }
  /// Null: absent.
  Tensor operand(Operand operand) const { return of(inputs(), operand); }
  /// There is a mask by priority.
  bool has_priorities() const;

  AttentionOptions options;
  OperandIndex index;

 protected:
  /// That operand among `inputs`.
  Tensor of(const Tensors& inputs, Operand operand) const;
  AttentionInputs unpack(const Tensors& inputs) const;
  /// The default cost, with FLOPs of so many contractions of all logits over `key` and over `value`.
  Cost contractions(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs, int over_key,
                    int over_value) const;
  /// Whether a contraction or the softmax would run over a split dimension.
  bool splits_reduction(const ShardingRequest& request) const;
};

/// Outputs: the result, and log(sum(exp(logits))) [q without `key`], of the logits relative to the smallest
/// mask of the row.
class Attention final : public AttentionOperation {
 public:
  Attention(Tensors inputs, const AttentionOptions& options, const OperandIndex& index);
  std::string_view name() const override { return "attention"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<Attention>(*this); }
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override { return splits_reduction(request); }
  /// Within a sequence: attention to a memory under another name, of what each position needs
  /// (sequence_blocks.h). Otherwise the composed form.
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;
  /// Two contractions; entries that the kernel skips as invisible count as well.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override {
    return contractions(inputs, outputs, 1, 1);
  }

 private:
  /// The expansion within a sequence.
  Tensors in_blocks(const Tensors& inputs, const LayoutMap& rules) const;
};

/// Inputs: those of attention, then the result, the log-sum-exp and the gradient of the result. Outputs: the
/// gradients of q, k, v and, where there is a table, of the bias by bucket [q's dimensions but length and
/// key, buckets]. What k and v, or the buckets, sum over stays a partial sum where it is split.
class AttentionGradient final : public AttentionOperation {
 public:
  AttentionGradient(Tensors inputs, const AttentionOptions& options, const OperandIndex& index);
  std::string_view name() const override { return "attention_gradient"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<AttentionGradient>(*this); }
  Tensors gradient(const Tensors&) const override { not_differentiable(*this); }
  ShardingRule sharding_rule(const ShardingRequest& request) const override;
  bool needs_expansion(const ShardingRequest& request) const override {
    return splits_reduction(request) || request.rules.splits(options.value);
  }
  /// The gradients of what attention expands to.
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;
  /// Five contractions: the logits are made again.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override {
    return contractions(inputs, outputs, 3, 2);
  }

 private:
  /// The expansion within a sequence.
  Tensors in_blocks(const Tensors& inputs, const LayoutMap& rules) const;
};

}  // namespace mtf
