// The hyperparameters of decoder-only language models, read from and written to Hugging Face's config.json and the
// configuration of this program: GPT-2 (Radford et al., 2019), OPT (Zhang et al., 2022), GPT-NeoX (Black et al., 2022), Falcon
// (Almazrouei et al., 2023), BLOOM (Le Scao et al., 2022), Phi (Li et al., 2023), StarCoder2 (Lozhkov et al., 2024), StableLM,
// Cohere, Llama (Touvron et al., 2023), SmolLM3, Granite, Mistral, Ministral, Phi-3 (Abdin et al., 2024), Qwen2, Qwen3, OLMo-2,
// OLMo-3, Gemma 1 to 3, and with experts Mixtral (Jiang et al., 2024), OLMoE (Muennighoff et al., 2024), Qwen2-MoE and
// Qwen3-MoE.
//
//   const CausalLmConfig lm = parse_causal_lm_config(text, "SmolLM2-135M/config.json");
//   const std::string yaml = causal_lm_yaml(lm, {.vocabulary = "{type: hugging_face, ...}", ...});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/activation.h"
#include "layers/attention.h"
#include "layers/rotary.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// The layers of attention: one that sees all positions before it, and one with a window.
inline constexpr std::string_view kFullAttention = "SelfAttention", kLocalAttention = "LocalSelfAttention";
/// The layer whose layers see one input, and the lists of layers of which it is made (`model.blocks`).
inline constexpr std::string_view kParallel = "parallel", kAttentionBlock = "attention",
                                  kFeedForwardBlock = "feed_forward";

/// The classes of transformers. A Mistral without a window is a Llama, unless a Llama cannot have its heads, a Ministral with
/// a window in all layers is a Mistral, and a Phi-3 that turns whole heads, without longrope, is a Mistral whose file has some
/// tensors together.
enum class CausalLmFamily {
  kGpt2,
  kOpt,
  kGptNeoX,
  kFalcon,
  kBloom,
  kPhi,
  kStarcoder2,
  kStableLm,
  kNemotron,
  kGptJ,
  kMpt,
  kCohere,
  kLlama,
  kSmolLm3,
  kGranite,
  kMistral,
  kMinistral,
  kQwen2,
  kQwen3,
  kOlmo2,
  kOlmo3,
  kGemma,
  kGemma2,
  kGemma3,
  kPhi3,
  kGlm,
  kGlm4,
  kMixtral,
  kOlmoe,
  kQwen2Moe,
  kQwen3Moe
};

struct CausalLmModel;

/// Where the norms of a block stand, and whether its layers see one input.
enum class BlockForm {
  kNormsBefore,   ///< x + layer(norm(x)), for one layer after the other
  kNormsAround,   ///< x + norm(layer(norm(x)))
  kNormsBehind,   ///< x + norm(layer(x))
  kParallel,      ///< x + attention(norm(x)) + feed_forward(norm(x)), with one norm
  kParallelNorms  ///< the same with a norm for each
};

/// What the attention of one layer sees, and whether its queries and keys are turned by their positions.
struct AttentionKind {
  bool is_local = false;
  bool has_rotary = true;  ///< true also where the model has no rotary positions at all
  bool operator==(const AttentionKind&) const = default;
};

/// The numbers by which a Granite multiplies vectors; a Cohere divides logits.
struct CausalLmScales {
  double embedding = 1;
  double residual = 1;       ///< the result of each layer
  double logit_divisor = 1;  ///< by which logits are divided
};

/// The experts of a model that has them in each block.
struct CausalLmExperts {
  int64_t count = 8;
  int64_t per_token = 2;
  bool normalized = true;  ///< the weights of a token's experts add up to 1
  std::optional<int64_t>
      shared_hidden;        ///< units of the expert of every token, which has a gate; nothing: none
  double balance_coef = 0;  ///< `router_aux_loss_coef`
  bool has_noise = false;   ///< `router_jitter_noise` is more than 0, which an import leaves out
};

/// The hyperparameters. A Gemma multiplies embeddings by the root of their size, and its files have scales of norms less 1.
struct CausalLmConfig {
  CausalLmFamily family = CausalLmFamily::kLlama;
  BlockForm form = BlockForm::kNormsBefore;
  int64_t vocab_size = 0;  ///< rows of the embedding in the file
  std::optional<int32_t>
      begin;  ///< the file's id of the token that begins a text; nothing: `end` does, or none
  std::optional<int32_t>
      end;  ///< the file's id of the token that ends a text; nothing: config.json does not say
  int64_t hidden = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_memory_heads = 0;  ///< heads of keys and values
  int64_t head_size = 0;
  int64_t intermediate = 0;  ///< units of the feed-forward layer, or of one expert
  int64_t max_positions = 0;
  /// The kinds of the layers of a pattern that repeats up to num_layers.
  std::vector<AttentionKind> kinds = {{}};
  std::optional<int64_t> window;  ///< the positions that local attention sees, the last one of them its own
  Activation activation = Activation::kSwish;
  AttentionBias attention_bias = AttentionBias::kNone;
  bool feed_forward_bias = false;
  std::optional<CausalLmExperts> experts;  ///< nothing: feed-forward layers
  bool logit_bias = false;
  std::optional<CausalLmScales> scales;
  double rotary_base = 10000;
  std::optional<int64_t> rotary_size;  ///< entries of a head that are turned, if not all
  std::optional<RotaryScalingChoice> rotary_scaling;

  std::optional<double>
      local_rotary_base;  ///< the base of local attention in a Gemma 3 or an OLMo-3, which has no scaling
  std::optional<int64_t>
      scaling_size;  ///< the number whose root divides the logits of attention, if not head_size
  /// The variables of queries are those of the file divided by that root (fold_scaling_into_initializer); of exports alone.
  bool has_scaled_queries = false;
  std::optional<double> attention_soft_cap, logit_soft_cap;
  double epsilon = 1e-6;
  double initializer_range = 0.02;
  double dropout = 0;            ///< after each layer, in models that have it there
  double embedding_dropout = 0;  ///< before the first layer, in the same models
  double attention_dropout = 0;
  bool tied = false;                ///< logits are computed with the embedding
  bool has_pairs_together = false;  ///< entries of a head that are turned together are neighbours in the file
  std::vector<std::string> notes = {};  ///< readable lines on what an import leaves out
  bool is_fused = false;                ///< the file has the tensors of a Phi-3, whatever the family is
  bool predicts_padding = true;         ///< id 0 has a logit

  bool is_gemma() const;
  /// True if norms stand behind the layers, too.
  bool has_outer_norms() const { return form == BlockForm::kNormsAround; }
  bool is_parallel() const { return form == BlockForm::kParallel || form == BlockForm::kParallelNorms; }
  /// The norms of queries and keys, which have `epsilon`, too.
  QkNorm qk_norm() const;
  /// True if the heads do not divide `hidden`, which transformers wants of a Llama and not of a Mistral.
  bool has_odd_heads() const { return hidden % num_heads != 0; }
  int64_t pattern() const { return static_cast<int64_t>(kinds.size()); }
  /// The kind of a layer, by its number.
  const AttentionKind& kind_of(int64_t layer) const { return kinds[static_cast<size_t>(layer % pattern())]; }
  /// True if the angles of each pair of entries have divisors of their own.
  bool has_longrope() const { return rotary_scaling && rotary_scaling->get_if<LongRotaryScaling>(); }
  /// True if some layers, and not all, have rotary positions.
  bool has_layers_without_rotary() const;
  /// The traits of the family.
  const CausalLmModel& model() const;
};

/// Leaves out digits in which a product and its factors differ by rounding.
std::string coefficient_text(double value);
double rounded_coefficient(double value);

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for those that this program cannot build. `begin` and `end` are as it says them, and may be one id.
CausalLmConfig parse_causal_lm_config(const std::string& json, const std::string& path);
std::string causal_lm_json(const CausalLmConfig& lm);

/// Returns the model that a configuration of this program describes, without what the vocabulary determines: vocab_size, begin
/// and end. Throws Error (kConfig), which says what differs from each model of Hugging Face.
CausalLmConfig causal_lm_of(const Config& config);
/// Returns the text of config.yaml.
std::string causal_lm_yaml(const CausalLmConfig& lm, const ModelSurroundings& around);

}  // namespace mtf
