#include "layers/attention_mixing.h"

#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "layers/attention.h"
#include "layers/normalization.h"

namespace mtf {

config::EnumNames enum_names(QkNorm) {
  return {{"false", QkNorm::kNone}, {"true", QkNorm::kEachHead}, {"all_heads", QkNorm::kAllHeads}};
}

void describe(config::Visitor& visit, AttentionMixingOptions& options) {
  visit("qk_norm", options.qk_norm,
        "queries and keys are divided by their root mean squares over the d_kv of a head, or over all heads, "
        "times learned scales");
  visit("qk_norm_epsilon", options.qk_norm_epsilon, "added to these mean squares", config::non_negative);
  visit("soft_cap", options.soft_cap, "logits become soft_cap * tanh(logits / soft_cap) (Gemma 2)",
        config::positive);
  visit("prefix_length", options.prefix_length,
        "entries of learned keys and values that all positions see (prefix tuning)", config::non_negative);
  visit("z_loss", options.z_loss,
        "adds the loss `attention_z`: so much times the mean of log(sum(exp(logits)))^2 over heads and "
        "positions",
        config::non_negative);
}

void describe_convolution(config::Visitor& visit, AttentionMixingOptions& options) {
  visit("convolution_width", options.convolution_width,
        "queries, keys and values go through a causal_conv of this width (Primer); 0: none",
        config::non_negative);
}

Tensor weight_noise(Context& context, const Shape& shape, double rate) {
  if (!context.training()) return {};
  const Tensor ones = context.graph().constant(1, DType::kFloat32, shape);
  const Tensor noise = dropout(ones, rate, shape);
  return rate > 0 ? noise : Tensor{};
}

Tensor AttentionMixing::normalized(const char* scope, const Tensor& x, const Shape& heads) const {
  const auto entered = context_.graph().scope(scope);
  const Shape each = Shape{projections_.key_dimension()};
  const Shape apart = options_.qk_norm == QkNorm::kAllHeads ? heads + each : each;
  const Shape together{{apart[0].name, apart.size()}};
  const Tensor y =
      rms_norm(context_, replace_dimensions(x, apart, together), together[0].name, options_.qk_norm_epsilon);
  return replace_dimensions(y, together, apart);
}

Tensor AttentionMixing::query(const Tensor& q) const {
  if (options_.qk_norm == QkNorm::kNone) return q;
  return scalar_multiply(normalized("q_norm", q, projections_.query_heads()), projections_.scale());
}

Tensor AttentionMixing::key(const Tensor& k) const {
  return options_.qk_norm == QkNorm::kNone ? k : normalized("k_norm", k, projections_.memory_heads());
}

Tensor AttentionMixing::operator()(const AttentionInputs& inputs, AttentionOptions attention,
                                   const Tensor& prefix_query, const Tensor& mask, double dropout) const {
  attention.soft_cap = options_.soft_cap;
  const bool has_z_loss = options_.z_loss.value_or(0) > 0 && context_.training();
  if (!has_z_loss && options_.prefix_length == 0) return mtf::attention(inputs, attention);
  const std::optional<double> extra = attention.extra_logit;
  if (has_z_loss) attention.extra_logit.reset();  // the loss leaves it out
  AttentionResult mixed = attention_with_log_sum(inputs, attention);
  if (options_.prefix_length > 0) mixed = with_prefix(mixed, prefix_query, attention.query_length, dropout);
  if (!has_z_loss) return mixed.result;
  add_z_loss(mixed.log_sum, mask);
  if (!extra) return mixed.result;
  const Tensor share = cast(sigmoid(scalar_add(mixed.log_sum, -*extra)), mixed.result.dtype());
  return multiply(mixed.result, share, mixed.result.shape());
}

AttentionResult AttentionMixing::with_prefix(const AttentionResult& own, const Tensor& q,
                                             const std::string& query_length, double dropout) const {
  const Dimension prefix{"prefix_length", options_.prefix_length};
  const Shape shape = Shape{prefix} + projections_.memory_heads() + Shape{projections_.key_dimension()};
  const AttentionInputs inputs{
      .q = q,
      .k = context_.variable("prefix_k", shape, Initializer::normal(1)),
      .v = context_.variable("prefix_v", shape, Initializer::normal(1)),
      .noise = weight_noise(context_, Shape{context_.batch()} + projections_.query_heads() + Shape{prefix},
                            dropout)};
  const auto [result, log_sum] = attention_with_log_sum(
      inputs, {.query_length = query_length, .memory_length = prefix.name, .soft_cap = options_.soft_cap});
  const Tensor excess = subtract(log_sum, own.log_sum, own.log_sum.shape());
  const Tensor share = cast(sigmoid(excess), result.dtype());
  const Shape& all = own.result.shape();
  return {add(own.result, multiply(subtract(result, own.result, all), share, all)),
          add(own.log_sum, softplus(excess))};
}

void AttentionMixing::add_z_loss(const Tensor& log_sum, const Tensor& mask) const {
  Tensor squares = square(log_sum);
  if (mask) squares = multiply(squares, cast(mask, squares.dtype()), squares.shape());
  context_.add_loss("attention_z", scalar_multiply(reduce_mean(squares, Shape{}), *options_.z_loss));
}

}  // namespace mtf
