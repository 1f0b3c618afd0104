// What the attention layers share: projections of queries, keys and values, heads, the mixing itself.
//
//   AttentionProjections p(context, options, x.shape().dimension("d_model"));
//   y = p.output(attend(context, p.query(x), p.key(memory), p.value(memory), visibility));
//
// Vaswani et al., Attention Is All You Need, 2017, §3.2; multi-query: Shazeer, Fast Transformer Decoding,
// 2019; grouped query: Ainslie et al., GQA, 2023. Variables: q, k, v, o (or q, kv, o) in the current scope,
// normal with deviations (d_model d_kv)^-1/2 for q, d_model^-1/2 for k and v, (heads d_kv)^-1/2 for o.
// Biases: q_bias, k_bias, v_bias (or kv_bias) with the dimensions that the projection makes, o_bias [model].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/schema.h"
#include "engine/ops/attention.h"
#include "layers/attention_mixing.h"
#include "layers/context.h"
#include "layers/initializer.h"
#include "layers/lora.h"

namespace mtf {

/// Which projections add a bias.
enum class AttentionBias { kNone, kAll, kInputs };
config::EnumNames enum_names(AttentionBias);

/// The kernels of an attention layer; with shared_kv the one of keys and values is both.
enum class AttentionKernel { kQueries, kKeys, kValues, kOutput };
config::EnumNames enum_names(AttentionKernel);

/// Low-rank updates of some kernels.
struct AttentionLora : LoraOptions {
  std::vector<AttentionKernel> kernels = {AttentionKernel::kQueries, AttentionKernel::kValues};
};
void describe(config::Visitor& visit, AttentionLora& options);

/// Keys of every attention layer.
struct HeadOptions : AttentionMixingOptions {
  int64_t num_heads = 8;
  int64_t num_memory_heads = 0;
  int64_t key_value_size = 128;
  bool shared_kv = false;
  bool combine_dims = true;
  double dropout = 0;
  bool fold_scaling_into_initializer = true;
  std::optional<int64_t> scaling_size;
  std::optional<double> extra_logit;
  AttentionBias bias = AttentionBias::kNone;
  std::optional<InitializerOptions> kernel_initializer;
  InitializerOptions bias_initializer = ZerosInitializer{};
  std::optional<AttentionLora> lora;
};
void describe(config::Visitor& visit, HeadOptions& options);

/// The name of positions that are looked at; those that look are called `length`.
inline constexpr std::string_view kMemoryLength = "memory_length";

/// Queries [batch, length, heads.., d_kv], keys and values [batch, memory_length, heads.., d_kv]. One head
/// has no dimension `heads`; with num_memory_heads = 1 keys and values have none; with more, queries have
/// `heads` and `query_heads`. Variables q, k, v (or kv), o in the current scope: with combine_dims their
/// dimension `heads` is heads * d_kv entries long, otherwise they have the dimensions of heads and d_kv.
class AttentionProjections {
 public:
  /// `model`: the dimension of x that is projected.
  AttentionProjections(Context& context, const HeadOptions& options, const Dimension& model);

  Tensor query(const Tensor& x) const;
  /// x: what is looked at, [batch, memory_length, model].
  Tensor key(const Tensor& x) const;
  Tensor value(const Tensor& x) const;
  /// mixed: [batch, length, heads.., d_kv] -> [batch, length, model]
  Tensor output(const Tensor& mixed) const;

  /// The dimensions of the queries' heads: none, [heads] or [heads, query_heads].
  const Shape& query_heads() const { return query_heads_; }
  /// Those of keys and values.
  const Shape& memory_heads() const { return memory_heads_; }
  /// d_kv.
  const Dimension& key_dimension() const { return key_; }
  /// The factor of the logits: d_kv^-1/2, or scaling_size^-1/2.
  double scale() const;

 private:
  /// scale: of the initial values, against those of a projection whose result is not scaled.
  Tensor project(const Tensor& x, AttentionKernel which, const std::string& variable, const Shape& heads,
                 double scale = 1) const;
  bool has_lora(AttentionKernel kernel) const;
  /// x times a kernel, with its low-rank update where it has one. x: [kept.., over..] -> [kept.., output..]
  Tensor product(const Tensor& x, AttentionKernel which, const std::string& variable, const Tensor& kernel,
                 const Shape& over, const Shape& output) const;
  /// The initial values of a kernel, scaled by `scale`.
  Initializer kernel_initializer(double stddev, int64_t fan_in, int64_t fan_out, double scale) const;
  /// y + bias over the dimensions `output`, unless the options have no bias there.
  Tensor add_bias(const Tensor& y, const std::string& variable, const Shape& output) const;
  /// `apart`, heads and d_kv, as a variable has them.
  Shape in_variable(const Shape& apart) const;

  Context& context_;
  const HeadOptions& options_;
  Dimension model_;
  Dimension key_;
  Shape query_heads_, memory_heads_;
};

/// Relative positions of Raffel et al., T5, 2020, §2.1 (bias); or none.
enum class RelativeAttention { kNone, kBias, kBiasShared };
config::EnumNames enum_names(RelativeAttention);

}  // namespace mtf
