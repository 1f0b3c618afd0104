// Attention over dimension names as one operation, with its gradient: softmax(q.k + bias) . v with masks,
// relative position bias and dropout. No tensor of length x memory_length is kept: the weights are computed
// row by row, and again in the gradient.
//
//   attention({.q = q, .k = k, .v = v, .query_segment = s, .memory_segment = t}, {.causal = true})
//   // q: [batch, length, heads, d_kv]; k, v: [batch, memory_length, heads, d_kv]
//   // -> [batch, length, heads, d_kv]
//
// For bfloat16 operands, logits, weights and sums are float32 (docs/numerics.md "What stays float32").
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/fused.h"
#include "engine/ops/relative_bucket.h"

namespace mtf {

/// The operands; null tensors are absent. Dimensions may be declared in any order; kernels read an operand
/// without a copy if its last dimension is `key`, `value`, memory_length or the buckets.
struct AttentionInputs {
  Tensor q;  ///< [batch.., heads.., length, key], not scaled; `length` may be missing (one query: decoding)
  Tensor k;  ///< [.., memory_length, key]; dimensions of q that it lacks (heads: multi-query) share it
  Tensor v;  ///< [.., memory_length, value], the other dimensions are those of k; k itself if they are shared
  /// A query only sees entries of its own segment, if these are given (both or none). int32; any of q's
  /// dimensions except `key`, with memory_length in place of length for the memory.
  Tensor query_segment = {}, memory_segment = {};
  /// A query only sees entries whose priority is not above its own. If one is given, or options.causal is
  /// set, null stands for the index in the row (0 for a query without length).
  Tensor query_priority = {}, memory_priority = {};
  /// Positions for the bias and for min_relative and max_relative. Null: the index in the row.
  Tensor query_position = {}, memory_position = {};
  /// [heads.., buckets], with the buckets last and any of q's dimensions except length and key. The entry of
  /// relative_bucket(memory position - query position) is added to the logits.
  Tensor bias_table = {};
  /// A factor for the weights (dropout: 0 or 1 / keep): [.., memory_length] with any of q's dimensions except
  /// `key`, usually all except length.
  Tensor noise = {};
  /// So many of the first entries of k and v are the same for all indices of options.copies. int32; any of k's dimensions
  /// except `copies`, `key` and memory_length. The result does not depend on it: kernels may read these entries once for
  /// all queries.
  Tensor shared_prefix = {};
};

struct AttentionOptions {
  std::string query_length = "length";
  /// If it equals query_length, the memory is the queries' own sequence. Each query must then see an entry of
  /// it (itself); if the length is split, only the part of the memory that the masks by index leave visible
  /// is exchanged.
  std::string memory_length = "memory_length";
  std::string key = "d_kv";    ///< contracted between q and k
  std::string value = "d_kv";  ///< dimension of v, and of the result in place of `key`
  /// Hides memory entries behind the query's index, see AttentionInputs::query_priority.
  bool causal = false;
  /// A row is one segment and then padding, and what the queries of the padding get is not used: with `causal` no
  /// query that is used sees another segment, whether or not a kernel looks at segments.
  bool one_text = false;
  /// An entry is visible if min_relative <= memory position - query position <= max_relative.
  std::optional<int64_t> min_relative = {}, max_relative = {};
  /// An additional logit that takes part in the softmax and is then dropped.
  std::optional<double> extra_logit = {};
  /// q.k becomes soft_cap * tanh(q.k / soft_cap), before bias and masks (Gemma 2, 2024, section 2). Above 0.
  std::optional<double> soft_cap = {};
  /// Options of the buckets of the bias, see RelativeBuckets.
  bool bidirectional = true;
  int64_t max_distance = 128;
  /// A dimension of q and k, with AttentionInputs::shared_prefix: the hypotheses or samples of a text.
  std::string copies = {};
};

/// Returns a tensor with q's dimensions, in its order, with `key` replaced by `value`. Each mask that hides
/// an entry adds -1e9 to its logit. A query that sees nothing gets the sum of all values (each weight is 1,
/// because in float32 -1e9 absorbs the logarithm of their number), or 0 with an extra logit. Throws Error if
/// dimensions or dtypes do not fit.
Tensor attention(const AttentionInputs& inputs, const AttentionOptions& options = {});

struct AttentionResult {
  Tensor result;
  /// log(sum(exp(logits))) of each query, with the extra logit [q without `key`]; the logits are relative to the
  /// smallest mask of the row. Of the accumulation dtype.
  Tensor log_sum;
};

/// The same with the log-sum-exp; both have gradients, but that of the log-sum-exp of a query that sees nothing is
/// undefined.
AttentionResult attention_with_log_sum(const AttentionInputs& inputs, const AttentionOptions& options = {});

/// The same function composed of contractions, dense masks and softmax. The operation expands to it if
/// memory_length (of another sequence) or `key` is split, and is tested against it.
AttentionResult composed_attention(const AttentionInputs& inputs, const AttentionOptions& options = {});

/// The weights of attention() before inputs.noise, of the accumulation dtype: [q without `key`, memory_length], a tensor
/// of plain operations that is kept. Without options.extra_logit each row sums to 1.
Tensor attention_weights(const AttentionInputs& inputs, const AttentionOptions& options = {});

struct AttentionOperands {
  /// The operands in the order of the inputs.
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
    kSharedPrefix,
  };
  static constexpr int kOperands = kSharedPrefix + 1;
};

/// The precision of products in attention that is added to the graph: where contractions are rounded to bfloat16, at most
/// tf32, which the CPU ignores.
inline MatmulPrecision attention_precision(const Graph& graph) {
  return graph.matmul_precision() == MatmulPrecision::kFull ? MatmulPrecision::kFull : MatmulPrecision::kTf32;
}

/// Common base of attention and its gradient. Operands have their row dimension last; the bias table and the
/// noise have the accumulation dtype.
class AttentionOperation : public Operation, public AttentionOperands {
 public:
  /// The index of the input that is each operand; -1: absent.
  using OperandIndex = std::array<int, kOperands>;

  AttentionOperation(Tensors inputs, std::vector<OutputInfo> outputs, const AttentionOptions& options,
                     const OperandIndex& index)
      : Operation(std::move(inputs), std::move(outputs)),
        options(options),
        index(index),
        tf32(this->inputs()[kQ].dtype() == DType::kFloat32 &&
             attention_precision(this->inputs()[kQ].graph()) == MatmulPrecision::kTf32),
        own_segments(has_own_segments()) {}
  std::string attributes() const override;
  /// All dimensions of the logits and the result, and the buckets.
  Shape joint_shape() const override;
  ShardingRule sharding_rule(const ShardingRequest& request) const override;

  /// True if the memory is the queries' own sequence.
  bool within_sequence() const;
  bool has(Operand operand) const { return index[operand] >= 0; }
  /// The number of operands that exist; a gradient's further inputs follow them.
  int operand_count() const {
    return static_cast<int>(std::ranges::count_if(index, [](int i) { return i >= 0; }));
  }
  /// Returns an operand, or null if it is absent.
  Tensor operand(Operand operand) const { return of(inputs(), operand); }
  /// True if there is a mask by priority.
  bool has_priorities() const;

  AttentionOptions options;
  OperandIndex index;
  bool tf32;  ///< see attention_precision()
  /// True if there are segments, and those of the memory are those of the queries under another name: query i
  /// sees entry i.
  bool own_segments;

 protected:
  /// Returns an operand among `inputs`.
  Tensor of(const Tensors& inputs, Operand operand) const;
  AttentionInputs unpack(const Tensors& inputs) const;
  /// Returns the default cost, with the FLOPs of contractions of all logits: `over_key` of them over `key`
  /// and `over_value` over `value`.
  Cost contractions(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs, int over_key,
                    int over_value) const;
  bool has_own_segments() const;
  /// True if a contraction or the softmax would run over a split dimension.
  bool splits_reduction(const ShardingRequest& request) const;
};

/// Outputs: the result, and log(sum(exp(logits))) [q without `key`], where the logits are relative to the
/// smallest mask of the row.
class Attention final : public AttentionOperation {
 public:
  Attention(Tensors inputs, const AttentionOptions& options, const OperandIndex& index);
  std::string_view name() const override { return "attention"; }
  std::unique_ptr<Operation> clone() const override { return std::make_unique<Attention>(*this); }
  Tensors gradient(const Tensors& dy) const override;
  bool needs_expansion(const ShardingRequest& request) const override { return splits_reduction(request); }
  /// Within a sequence, expands to attention to a memory with another name, which contains what each position
  /// needs (sequence_blocks.h); otherwise to the composed form.
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;
  /// Two contractions; entries that the kernel skips because they are invisible are counted as well.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override {
    return contractions(inputs, outputs, 1, 1);
  }

 private:
  /// The expansion within a sequence.
  Tensors in_blocks(const Tensors& inputs, const LayoutMap& rules) const;
};

/// Inputs: those of attention, then the result, the log-sum-exp, the gradient of the result and, if it has one, that of
/// the log-sum-exp. Outputs: the gradients of q, k, v and, if there is a table, of the bias by bucket [q's dimensions except
/// length and key, buckets]. The gradients are partial sums where a dimension over which they sum is split.
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
  /// Expands to the gradients of what attention expands to.
  Tensors expand(const Tensors& inputs, const LayoutMap& rules) const override;
  /// Five contractions, because the logits are computed again.
  Cost cost(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs) const override {
    return contractions(inputs, outputs, 3, 2);
  }

 private:
  /// The expansion within a sequence.
  Tensors in_blocks(const Tensors& inputs, const LayoutMap& rules) const;
};

}  // namespace mtf
