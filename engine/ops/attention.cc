#include "engine/ops/attention.h"

#include <fmt/format.h>

#include "engine/graph/gradients.h"
#include "engine/graph/matmul_precision_scope.h"
#include "engine/ops/attention_masks.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/sequence_blocks.h"
#include "engine/ops/softmax.h"
#include "engine/ops/transpose.h"
#include "engine/ops/unary.h"
#include "engine/ops/whole_dimension.h"

namespace mtf {
namespace {

constexpr std::string_view kAttention = "attention";
constexpr int64_t kFarthestDistance = 1 << 20;

using Operand = AttentionOperation::Operand;

/// Returns `x` with `dimension` declared last.
Tensor with_last(const Tensor& x, const std::string& dimension) {
  if (!x) return x;
  const Dimension last = x.shape().dimension(dimension);
  return transpose(x, x.shape() - last + last);
}

const std::string& buckets_of(const Tensor& table) { return table.shape()[table.shape().rank() - 1].name; }

/// Returns the shape of q with `key` replaced by the dimension `value` of v.
Shape result_shape(const Shape& q, const Shape& v, const AttentionOptions& options) {
  std::vector<Dimension> dimensions = q.dimensions();
  dimensions[*q.find(options.key)] = v.dimension(options.value);
  return Shape(std::move(dimensions));
}

/// Returns the dimensions of a bias table with an entry for each query head: those of q except length and
/// key, then the buckets.
Shape bias_shape(const Tensor& q, const Tensor& table, const AttentionOptions& options) {
  return without(without(q.shape(), options.query_length), options.key) +
         table.shape().dimension(buckets_of(table));
}

/// Checks the operands; throws Error if one does not fit.
class Check {
 public:
  explicit Check(const AttentionInputs& inputs, const AttentionOptions& options)
      : in_(inputs), options_(options) {}

  void run() const {
    if (!is_floating(in_.q.dtype()))
      shape_error(kAttention, fmt::format("needs floating-point operands, not {}", name_of(in_.q.dtype())));
    need("q", in_.q, options_.key);
    for (const auto& [name, x, last] : {std::tuple("k", in_.k, options_.key), {"v", in_.v, options_.value}}) {
      need(name, x, last);
      need(name, x, options_.memory_length);
      if (x.dtype() != in_.q.dtype())
        shape_error(kAttention,
                    fmt::format("q is {}, {} is {}", name_of(in_.q.dtype()), name, name_of(x.dtype())),
                    "cast one of them");
    }
    const Shape queries = without(in_.q.shape(), options_.key);
    const Shape outer = without(queries, options_.query_length);
    if (outer.contains(options_.memory_length) || queries.contains(options_.value))
      misfit("q", in_.q, fmt::format("neither `{}` nor `{}`", options_.memory_length, options_.value));
    const Dimension memory = in_.k.shape().dimension(options_.memory_length);
    const Dimension key = in_.q.shape().dimension(options_.key);
    within("k", in_.k, outer + memory + key);
    const Shape shared = in_.k.shape() - memory - key;
    const Dimension value = in_.v.shape().dimension(options_.value);
    if (!same_dimensions(in_.v.shape(), shared + memory + value))
      misfit("v", in_.v, "the dimensions " + (shared + memory + value).to_string());
    for (const Tensor& x : {in_.query_segment, in_.query_priority, in_.query_position})
      ids("the queries", x, queries);
    for (const Tensor& x : {in_.memory_segment, in_.memory_priority, in_.memory_position}) {
      ids("the memory", x, outer + memory);
      if (x) need("the memory's ids", x, options_.memory_length);
    }
    if (!in_.query_segment != !in_.memory_segment)
      shape_error(kAttention, "segments of the queries or of the memory alone", "both or none");
    if (in_.noise) {
      need("noise", in_.noise, options_.memory_length);
      within("noise", in_.noise, queries + memory);
    }
    if (in_.bias_table) check_table(outer);
    if (in_.shared_prefix) {
      need("k", in_.k, options_.copies);
      ids("the shared prefix", in_.shared_prefix, without(shared, options_.copies));
    }
    if (options_.soft_cap && !(*options_.soft_cap > 0))
      shape_error(kAttention, fmt::format("a soft cap of {}", *options_.soft_cap), "a number above 0");
  }

 private:
  [[noreturn]] static void misfit(std::string_view what, const Tensor& x, const std::string& right) {
    shape_error(kAttention, fmt::format("{} has shape {}", what, x.shape().to_string()), right);
  }
  static void need(std::string_view what, const Tensor& x, const std::string& dimension) {
    if (!x.shape().contains(dimension)) misfit(what, x, fmt::format("it needs a dimension `{}`", dimension));
  }
  static void within(std::string_view what, const Tensor& x, const Shape& all) {
    if (!all.contains_all(x.shape())) misfit(what, x, "some of the dimensions " + all.to_string());
  }
  static void ids(const std::string& whose, const Tensor& x, const Shape& all) {
    if (!x) return;
    if (x.dtype() != DType::kInt32)
      shape_error(kAttention, fmt::format("ids of {} are {}", whose, name_of(x.dtype())), "int32");
    within("an id of " + whose, x, all);
  }
  void check_table(const Shape& outer) const {
    const Tensor& table = in_.bias_table;
    if (table.shape().rank() == 0 || !is_floating(table.dtype()))
      misfit("the table of the bias", table, "floating-point values [heads.., buckets]");
    const Dimension buckets = table.shape().dimension(buckets_of(table));
    if (outer.contains(buckets.name)) misfit("the table of the bias", table, "the buckets come last");
    within("the table of the bias", table, outer + buckets);
    const int64_t directions = options_.bidirectional ? 2 : 1, each = buckets.size / (2 * directions);
    if (buckets.size % (2 * directions) != 0 || options_.max_distance <= each ||
        options_.max_distance > kFarthestDistance)
      shape_error(kAttention,
                  fmt::format("{} buckets for distances up to {}", buckets.size, options_.max_distance),
                  fmt::format("a multiple of {} buckets, and a max_distance above {} and at most {}",
                              2 * directions, each, kFarthestDistance));
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
};

/// Attention composed of plain operations.
class Composed {
 public:
  Composed(const AttentionInputs& inputs, const AttentionOptions& options)
      : in_(inputs),
        options_(options),
        graph_(inputs.q.graph()),
        dtype_(accumulation_dtype(inputs.q.dtype())),
        memory_(inputs.k.shape().dimension(options.memory_length)),
        rows_(without(inputs.q.shape(), options.key)) {}

  AttentionResult run() {
    const MatmulPrecisionScope scope(graph_, attention_precision(graph_));
    auto [weights, log_sum] = this->weights();
    if (in_.noise) weights = multiply(weights, in_.noise, rows_ + memory_);
    const Tensor result =
        einsum({weights, cast(in_.v, dtype_)}, result_shape(in_.q.shape(), in_.v.shape(), options_));
    return {cast(result, in_.q.dtype()), log_sum};
  }

  /// The weights as the result.
  AttentionResult weights() {
    const MatmulPrecisionScope scope(graph_, attention_precision(graph_));
    const Shape all = rows_ + memory_;
    Tensor logits = einsum({cast(in_.q, dtype_), cast(in_.k, dtype_)}, all);
    if (options_.soft_cap) logits = soft_cap(logits, *options_.soft_cap);
    if (in_.bias_table) logits = add(logits, attention_bias(in_, options_, memory_, dtype_), all);
    Tensor least;  // the smallest mask of each row
    if (const Tensor penalty = attention_masks(in_, options_, memory_, dtype_)) {
      least = reduce_max(penalty, without(penalty.shape(), memory_.name));
      logits = subtract(add(logits, penalty, all), least, all);
    }
    const Tensor log_sum = sum_of_exponentials(logits, least);
    Tensor weights = exp(subtract(logits, log_sum, all));
    if (least && !options_.extra_logit) {
      // In rows that see nothing, the logarithm of the count vanishes beside the mask.
      const Tensor addend = multiply(log_sum, cast(less(least, graph_.constant(0, dtype_)), dtype_));
      weights = multiply(weights, exp(stop_gradient(addend)), all);
    }
    return {weights, log_sum};
  }

 private:
  /// Returns the logarithm of the sum of exp(logits) and of the extra logit, relative to `least`.
  Tensor sum_of_exponentials(const Tensor& logits, const Tensor& least) {
    if (!least || !options_.extra_logit) return reduce_logsumexp(logits, memory_.name, options_.extra_logit);
    const Tensor sum = reduce_logsumexp(logits, memory_.name);
    const Tensor extra = subtract(graph_.constant(*options_.extra_logit, dtype_), least, least.shape());
    const Tensor top = maximum(sum, extra, sum.shape());
    return log(exp(sum - top) + exp(subtract(extra, top, top.shape()))) + top;
  }

  const AttentionInputs& in_;
  const AttentionOptions& options_;
  Graph& graph_;
  DType dtype_;
  Dimension memory_;
  Shape rows_;
};

/// Returns the inputs of the operation, in the form that its kernels read.
Tensors pack(const AttentionInputs& in, const AttentionOptions& options,
             AttentionOperation::OperandIndex& index) {
  const DType dtype = accumulation_dtype(in.q.dtype());
  const auto accumulated = [&](const Tensor& x) { return x ? cast(x, dtype) : x; };
  const std::string& memory = options.memory_length;
  const Tensor operands[] = {with_last(in.q, options.key),
                             with_last(in.k, options.key),
                             with_last(in.v, options.value),
                             in.query_segment,
                             with_last(in.memory_segment, memory),
                             in.query_priority,
                             with_last(in.memory_priority, memory),
                             in.query_position,
                             with_last(in.memory_position, memory),
                             accumulated(in.bias_table),
                             accumulated(with_last(in.noise, memory)),
                             in.shared_prefix};
  Tensors inputs;
  for (size_t i = 0; i < std::size(operands); ++i) {
    index[i] = operands[i] ? static_cast<int>(inputs.size()) : -1;
    if (operands[i]) inputs.push_back(operands[i]);
  }
  return inputs;
}

Tensors joined(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<OutputInfo> gradient_outputs(const Tensors& inputs, const AttentionOptions& options,
                                         const AttentionOperation::OperandIndex& index) {
  using enum AttentionOperation::Operand;
  std::vector<OutputInfo> outputs;
  for (Operand operand : {kQ, kK, kV}) {
    const Tensor& x = inputs[index[operand]];
    outputs.push_back({x.shape(), x.dtype()});
  }
  if (index[kBiasTable] >= 0) {
    const Tensor& table = inputs[index[kBiasTable]];
    outputs.push_back({bias_shape(inputs[index[kQ]], table, options), table.dtype()});
  }
  return outputs;
}

}  // namespace

Tensor attention(const AttentionInputs& inputs, const AttentionOptions& options) {
  return attention_with_log_sum(inputs, options).result;
}

AttentionResult attention_with_log_sum(const AttentionInputs& inputs, const AttentionOptions& options) {
  Check(inputs, options).run();
  AttentionOperation::OperandIndex index;
  Tensors packed = pack(inputs, options, index);
  const Operation& operation = inputs.q.graph().add<Attention>(std::move(packed), options, index);
  return {transpose(operation.output(0), result_shape(inputs.q.shape(), inputs.v.shape(), options)),
          operation.output(1)};
}

namespace {

/// The operands of the composed form, whose memory has a name of its own.
struct ComposedOperands {
  AttentionInputs in;
  AttentionOptions options;
};

ComposedOperands composed_operands(const AttentionInputs& inputs, const AttentionOptions& options) {
  Check(inputs, options).run();
  AttentionInputs in = inputs;
  const DType dtype = accumulation_dtype(inputs.q.dtype());
  if (in.bias_table) in.bias_table = cast(in.bias_table, dtype);
  if (in.noise) in.noise = cast(in.noise, dtype);
  AttentionOptions apart = options;
  if (options.memory_length == options.query_length && in.q.shape().contains(options.query_length)) {
    apart.memory_length = "memory_" + options.query_length;
    for (Tensor* x :
         {&in.k, &in.v, &in.memory_segment, &in.memory_priority, &in.memory_position, &in.noise}) {
      if (*x) *x = rename(*x, options.query_length, apart.memory_length);
    }
  }
  return {in, apart};
}

}  // namespace

AttentionResult composed_attention(const AttentionInputs& inputs, const AttentionOptions& options) {
  const auto [in, apart] = composed_operands(inputs, options);
  return Composed(in, apart).run();
}

Tensor attention_weights(const AttentionInputs& inputs, const AttentionOptions& options) {
  const auto [in, apart] = composed_operands(inputs, options);
  return Composed(in, apart).weights().result;
}

std::string AttentionOperation::attributes() const {
  using enum Operand;
  std::string text = fmt::format("memory={}", options.memory_length);
  if (options.causal) text += ", causal";
  if (options.one_text) text += ", one_text";
  if (options.min_relative) text += fmt::format(", min_relative={}", *options.min_relative);
  if (options.max_relative) text += fmt::format(", max_relative={}", *options.max_relative);
  if (options.extra_logit) text += fmt::format(", extra_logit={}", *options.extra_logit);
  if (options.soft_cap) text += fmt::format(", soft_cap={}", *options.soft_cap);
  for (const auto& [operand, name] :
       {std::pair(kMemorySegment, "segments"), {kBiasTable, "bias"}, {kNoise, "noise"}}) {
    if (has(operand)) text += fmt::format(", {}", name);
  }
  if (has(kSharedPrefix)) text += fmt::format(", shared prefix of {}", options.copies);
  if (tf32) text += ", tf32";
  return text;
}

Shape AttentionOperation::joint_shape() const {
  const Shape joint = operand(Operand::kQ).shape() + operand(Operand::kV).shape();
  const Tensor table = operand(Operand::kBiasTable);
  return table ? joint + table.shape() : joint;
}

/// Splits by name, except for the buckets, which every position needs.
ShardingRule AttentionOperation::sharding_rule(const ShardingRequest& request) const {
  ShardingRule rule = shard_by_name(*this, request);
  const Tensor table = operand(Operand::kBiasTable);
  return table ? with_whole_dimension(std::move(rule), *this, buckets_of(table)) : rule;
}

bool AttentionOperation::within_sequence() const {
  return options.memory_length == options.query_length &&
         operand(Operand::kQ).shape().contains(options.query_length);
}

bool AttentionOperation::has_own_segments() const {
  const Tensor queries = operand(Operand::kQuerySegment);
  Tensor memory = operand(Operand::kMemorySegment);
  if (!memory || !queries.shape().contains(options.query_length)) return false;
  if (memory.operation().name() == "transpose") memory = memory.operation().inputs()[0];
  if (memory == queries) return true;
  return memory.operation().name() == "reshape" && memory.operation().inputs()[0] == queries &&
         memory.shape() == queries.shape().renamed(options.query_length, options.memory_length);
}

bool AttentionOperation::has_priorities() const {
  return options.causal || has(Operand::kQueryPriority) || has(Operand::kMemoryPriority);
}

Tensor AttentionOperation::of(const Tensors& inputs, Operand operand) const {
  return has(operand) ? inputs[index[operand]] : Tensor();
}

AttentionInputs AttentionOperation::unpack(const Tensors& inputs) const {
  using enum Operand;
  return {of(inputs, kQ),
          of(inputs, kK),
          of(inputs, kV),
          of(inputs, kQuerySegment),
          of(inputs, kMemorySegment),
          of(inputs, kQueryPriority),
          of(inputs, kMemoryPriority),
          of(inputs, kQueryPosition),
          of(inputs, kMemoryPosition),
          of(inputs, kBiasTable),
          of(inputs, kNoise),
          of(inputs, kSharedPrefix)};
}

bool AttentionOperation::splits_reduction(const ShardingRequest& request) const {
  return request.rules.splits(options.memory_length) || request.rules.splits(options.key);
}

Cost AttentionOperation::contractions(const std::vector<Shape>& inputs, const std::vector<Shape>& outputs,
                                      int over_key, int over_value) const {
  const Shape &q = inputs[index[Operand::kQ]], &v = inputs[index[Operand::kV]];
  const int64_t key = q.dimension(options.key).size, value = v.dimension(options.value).size;
  const int64_t logits = q.size() / key * v.dimension(options.memory_length).size;
  Cost cost = Operation::cost(inputs, outputs);
  cost.flops = 2 * static_cast<double>(logits) * static_cast<double>(over_key * key + over_value * value);
  return cost;
}

Attention::Attention(Tensors inputs, const AttentionOptions& options, const OperandIndex& index)
    : AttentionOperation(inputs,
                         {{result_shape(inputs[Operand::kQ].shape(), inputs[Operand::kV].shape(), options),
                           inputs[Operand::kQ].dtype()},
                          {without(inputs[Operand::kQ].shape(), options.key),
                           accumulation_dtype(inputs[Operand::kQ].dtype())}},
                         options, index) {}

Tensors Attention::gradient(const Tensors& dy) const {
  Tensors gradients(inputs().size());
  if (!dy[0] && !dy[1]) return gradients;
  Tensors further{output(0), output(1), dy[0]};
  if (!dy[0]) further[2] = graph().constant(0, output(0).dtype(), output(0).shape());
  if (dy[1]) further.push_back(dy[1]);
  const auto& operation = graph().add<AttentionGradient>(joined(inputs(), further), options, index);
  for (Operand operand : {Operand::kQ, Operand::kK, Operand::kV})
    gradients[index[operand]] = operation.output(operand);
  if (const Tensor table = operand(Operand::kBiasTable))
    gradients[index[Operand::kBiasTable]] = reduce_sum(operation.output(3), table.shape());
  return gradients;
}

Tensors Attention::expand(const Tensors& inputs, const LayoutMap& rules) const {
  if (within_sequence()) return in_blocks(inputs, rules);
  const AttentionInputs unpacked = unpack(inputs);
  const auto [result, log_sum] = Composed(unpacked, options).run();
  return {result, log_sum};
}

Tensors Attention::in_blocks(const Tensors& inputs, const LayoutMap& rules) const {
  const SequenceBlocks blocks(unpack(inputs), options, rules);
  OperandIndex index;
  Tensors packed = pack(blocks.inputs(), blocks.options(), index);
  const auto& operation = graph().add<Attention>(std::move(packed), blocks.options(), index);
  return {blocks.joined(operation.output(0)), blocks.joined(operation.output(1))};
}

AttentionGradient::AttentionGradient(Tensors inputs, const AttentionOptions& options,
                                     const OperandIndex& index)
    : AttentionOperation(inputs, gradient_outputs(inputs, options, index), options, index) {}

ShardingRule AttentionGradient::sharding_rule(const ShardingRequest& request) const {
  ShardingRule rule = AttentionOperation::sharding_rule(request);
  const Shape& q = operand(Operand::kQ).shape();
  const auto partial = [&](const Shape& shape) {
    AxisMask axes = 0;
    for (const Dimension& d : without(q, options.key) - shape) {
      for (int axis : request.rules.axes(d.name)) axes |= axis_bit(axis);
    }
    return axes;
  };
  for (size_t i = 1; i < outputs().size(); ++i) rule.outputs[i].partial = partial(outputs()[i].shape);
  return rule;
}

Tensors AttentionGradient::expand(const Tensors& inputs, const LayoutMap& rules) const {
  if (within_sequence()) return in_blocks(inputs, rules);
  AttentionInputs in = unpack(inputs);
  // New handles, because several operands may be the same tensor.
  for (Tensor* x : {&in.q, &in.k, &in.v}) *x = identity(*x);
  Tensors xs{in.q, in.k, in.v};
  if (in.bias_table) {
    in.bias_table = broadcast(in.bias_table, bias_shape(in.q, in.bias_table, options));
    xs.push_back(in.bias_table);
  }
  const AttentionResult composed = Composed(in, options).run();
  const auto further = inputs.begin() + operand_count();
  Tensors results{composed.result}, d_results{further[2]};
  if (further + 3 != inputs.end()) {
    results.push_back(composed.log_sum);
    d_results.push_back(further[3]);
  }
  return gradients(results, xs, d_results);
}

Tensors AttentionGradient::in_blocks(const Tensors& inputs, const LayoutMap& rules) const {
  const SequenceBlocks blocks(unpack(inputs), options, rules);
  OperandIndex index;
  Tensors packed = pack(blocks.inputs(), blocks.options(), index);
  for (size_t i = operand_count(); i < inputs.size(); ++i) packed.push_back(blocks.cut(inputs[i]));
  const auto& operation = graph().add<AttentionGradient>(std::move(packed), blocks.options(), index);
  const auto [dk, dv] = blocks.memory_gradients(operation.output(Operand::kK), operation.output(Operand::kV));
  Tensors results{blocks.joined(operation.output(Operand::kQ)), dk, dv};
  if (has(Operand::kBiasTable)) results.push_back(operation.output(3));
  return results;
}

}  // namespace mtf
