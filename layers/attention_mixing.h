// What some families of models change in how attention mixes values: queries and keys that are normalised, soft caps of
// the logits, learned prefixes, a loss that keeps logits small.
//
//   const AttentionMixing mix(context, options, projections);
//   inputs.q = mix.query(projections.query(x));
//   inputs.k = mix.key(projections.key(memory));
//   y = mix(inputs, attention_options, inputs.q, sequence.mask);
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/config/schema.h"
#include "engine/ops/attention.h"
#include "layers/context.h"

namespace mtf {

class AttentionProjections;

/// What the norms of queries and keys are over: nothing, the entries of each head, or those of all heads.
enum class QkNorm { kNone, kEachHead, kAllHeads };
config::EnumNames enum_names(QkNorm);

/// Keys of every attention layer. With the defaults, attention is that of attention().
struct AttentionMixingOptions {
  QkNorm qk_norm = QkNorm::kNone;
  double qk_norm_epsilon = 1e-6;
  std::optional<double> soft_cap;
  int64_t prefix_length = 0;
  std::optional<double> z_loss;
  int64_t convolution_width = 0;  ///< only of self-attention (describe_convolution)
};
void describe(config::Visitor& visit, AttentionMixingOptions& options);
/// The key convolution_width, which layers with a memory of their own have.
void describe_convolution(config::Visitor& visit, AttentionMixingOptions& options);

class AttentionMixing {
 public:
  /// Variables go to the current scope. The arguments must live as long as this.
  AttentionMixing(Context& context, const AttentionMixingOptions& options,
                  const AttentionProjections& projections)
      : context_(context), options_(options), projections_(projections) {}

  /// With qk_norm: rms_norm(q) d_kv^-1/2 over d_kv or over heads and d_kv, variable q_norm/scale. Dehghani et al., ViT-22B,
  /// 2023, section 2; with root mean squares as in Qwen3 and Gemma 3, of all heads as in OLMoE (Muennighoff et al., 2024).
  Tensor query(const Tensor& q) const;
  /// With qk_norm: rms_norm(k) over the same, variable k_norm/scale.
  Tensor key(const Tensor& k) const;

  /// Attention to inputs.k and inputs.v, and to a learned prefix, which every query sees.
  /// prefix_query: the queries that look at it, before positions turn them. mask: float32 [batch, length], 0 in the
  /// padding; null: there is none. dropout: rate for the weights of the prefix.
  Tensor operator()(const AttentionInputs& inputs, AttentionOptions attention, const Tensor& prefix_query,
                    const Tensor& mask, double dropout) const;

 private:
  /// x: [.., heads.., d_kv]
  Tensor normalized(const char* scope, const Tensor& x, const Shape& heads) const;
  /// One softmax over the entries of `own` and those of the prefix.
  AttentionResult with_prefix(const AttentionResult& own, const Tensor& q, const std::string& query_length,
                              double dropout) const;
  /// Adds z_loss times the mean over queries of log_sum^2, where padding counts as 0.
  void add_z_loss(const Tensor& log_sum, const Tensor& mask) const;

  Context& context_;
  const AttentionMixingOptions& options_;
  const AttentionProjections& projections_;
};

/// Factors for the attention weights of this shape, 0 or 1 / (1 - rate); null where the model is not trained or the rate
/// is 0.
Tensor weight_noise(Context& context, const Shape& shape, double rate);

}  // namespace mtf
