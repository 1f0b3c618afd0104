// Converts a decoder-only language model to a configuration of this program and back.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/printable.h"
#include "engine/config/load.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/causal_lm_layers.h"
#include "trainer/programs/convert/causal_lm_models.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/layer_options.h"

namespace mtf {
namespace {

constexpr int64_t kUsualTextLength = 1024;

/// A rate that is the variable's, or another one.
std::string rate_text(double rate, double of_variable) {
  return rate == of_variable ? "$dropout" : fmt::to_string(rate);
}

std::string rotary_text(const CausalLmConfig& lm, bool local) {
  if (local && lm.local_rotary_base)
    return fmt::format("rotary: true, rotary_base: {}", *lm.local_rotary_base);
  std::string text = fmt::format("rotary: true, rotary_base: {}", lm.rotary_base);
  if (lm.rotary_size) text += fmt::format(", rotary_size: {}", *lm.rotary_size);
  if (!lm.rotary_scaling) return text;
  if (const auto* yarn = lm.rotary_scaling->get_if<YarnRotaryScaling>())
    return fmt::format(
        "{}, rotary_scaling: {{type: yarn, factor: {}, original_length: {}, beta_fast: {}, beta_slow: {}, "
        "attention_factor: {}, truncate: {}}}",
        text, yarn->factor, yarn->original_length, yarn->beta_fast, yarn->beta_slow,
        yarn->attention_factor ? fmt::to_string(*yarn->attention_factor) : "null", yarn->truncate);
  if (const auto* linear = lm.rotary_scaling->get_if<LinearRotaryScaling>())
    return fmt::format("{}, rotary_scaling: {{type: linear, factor: {}}}", text, linear->factor);
  if (const auto* longrope = lm.rotary_scaling->get_if<LongRotaryScaling>())
    return fmt::format(
        "{},\n       rotary_scaling: {{type: longrope, factor: {}, original_length: {}, attention_factor: "
        "{}, "
        "long: {},\n         short_factor: [{}],\n         long_factor: [{}]}}",
        text, longrope->factor, longrope->original_length,
        longrope->attention_factor ? fmt::to_string(*longrope->attention_factor) : "null", longrope->is_long,
        fmt::join(longrope->short_factor, ", "), fmt::join(longrope->long_factor, ", "));
  const auto* llama3 = lm.rotary_scaling->get_if<Llama3RotaryScaling>();
  return fmt::format(
      "{}, rotary_scaling: {{type: llama3, factor: {}, low_frequency: {}, high_frequency: {}, "
      "original_length: {}}}",
      text, llama3->factor, llama3->low_frequency, llama3->high_frequency, llama3->original_length);
}

std::string attention_text(const CausalLmConfig& lm, double rate_of_variable, bool local) {
  const bool has_qk_norm = lm.qk_norm() != QkNorm::kNone;
  std::string text = fmt::format("num_heads: {}, key_value_size: {}", lm.num_heads, lm.head_size);
  if (local) text = fmt::format("radius: {}, {}", *lm.window, text);
  if (lm.num_memory_heads != lm.num_heads) text += fmt::format(", num_memory_heads: {}", lm.num_memory_heads);
  text += fmt::format(", bias: {}, dropout: {}", config::dump(lm.attention_bias).text(),
                      rate_text(lm.attention_dropout, rate_of_variable));
  text += fmt::format(",\n       fold_scaling_into_initializer: {}", has_qk_norm);
  if (has_qk_norm)
    text += fmt::format(", qk_norm: {}, qk_norm_epsilon: {}", config::dump(lm.qk_norm()).text(), lm.epsilon);
  if (lm.scaling_size) text += fmt::format(", scaling_size: {}", *lm.scaling_size);
  if (lm.attention_soft_cap) text += fmt::format(", soft_cap: {}", *lm.attention_soft_cap);
  if (lm.model().has_alibi) text += ", alibi: true";
  if (lm.model().has_rotary()) text += ", " + rotary_text(lm, local);
  return text;
}

/// The lists of layers around those of the block; `rate` is that of the variable.
std::string sublayers_text(const CausalLmConfig& lm, const std::string& norm, double rate) {
  const bool has_dropout = lm.model().has_dropout;
  std::string initial = has_dropout ? fmt::format("dropout: {}", rate_text(lm.embedding_dropout, rate)) : "";
  if (lm.model().has_embedding_norm) initial = norm;
  if (lm.family == CausalLmFamily::kGranite)
    return fmt::format(
        "{{initial: [scale: {}], per_layer: [{}, call_layer, scale: {}, residual], final: [{}, scale: {}]}}",
        lm.scales->embedding, norm, lm.scales->residual, norm, 1 / lm.scales->logit_divisor);
  const char* const drop = has_dropout && !lm.is_parallel() ? "dropout: $dropout, " : "";
  std::string each = fmt::format("{}, call_layer, {}residual", norm, drop);
  if (lm.form == BlockForm::kNormsAround) each = fmt::format("{0}, call_layer, {0}, residual", norm);
  if (lm.form == BlockForm::kNormsBehind) each = fmt::format("call_layer, {}, residual", norm);
  if (lm.form == BlockForm::kParallelNorms) each = "call_layer, residual";
  const std::string scale = lm.scales ? fmt::format(", scale: {}", 1 / lm.scales->logit_divisor) : "";
  return fmt::format("{{initial: [{}], per_layer: [{}], final: [{}{}]}}", initial, each, norm, scale);
}

/// The layers that see one input, and the lists of layers that they are.
std::string parallel_text(const CausalLmConfig& lm, const std::string& norm) {
  const auto list = [&](std::string_view layer) {
    return fmt::format("[{}{}{}]", lm.form == BlockForm::kParallelNorms ? norm + ", " : "", layer,
                       lm.model().has_dropout ? ", dropout: $dropout" : "");
  };
  return fmt::format(
      "[{0}: {{layers: [block: {{use: {1}, name: {1}}}, block: {{use: {2}, name: {2}}}], scale: none}}]\n"
      "  blocks:\n"
      "    {1}: {3}\n"
      "    {2}: {4}",
      kParallel, kAttentionBlock, kFeedForwardBlock, list(kFullAttention), list(kFeedForward));
}

/// The block, and the entries of `layer_defaults` for its layers of attention.
struct BlockText {
  std::string layers;
  std::string attention;
};

BlockText block_text(const CausalLmConfig& lm, const std::string& norm, double rate_of_variable,
                     const std::string& initializer) {
  std::vector<std::string> layers;
  const char* const no_rotary =
      lm.rotary_scaling ? ": {rotary: false, rotary_scaling: null}" : ": {rotary: false}";
  for (const AttentionKind& kind : lm.kinds)
    layers.push_back(fmt::format("{}{}, {}", kind.is_local ? kLocalAttention : kFullAttention,
                                 kind.has_rotary ? "" : no_rotary, lm.experts ? kExperts : kFeedForward));
  BlockText text{lm.is_parallel() ? parallel_text(lm, norm) : fmt::format("[{}]", fmt::join(layers, ", ")),
                 ""};
  for (const bool local : {false, true}) {
    if (std::ranges::find(lm.kinds, local, &AttentionKind::is_local) == lm.kinds.end()) continue;
    text.attention += fmt::format("    {}:\n      {{{},\n       kernel_initializer: {}}}\n",
                                  local ? kLocalAttention : kFullAttention,
                                  attention_text(lm, rate_of_variable, local), initializer);
  }
  return text;
}

/// The layer that turns each vector into another one, as `layer_defaults` has it.
std::string feed_forward_text(const CausalLmConfig& lm, const std::string& initializer) {
  const std::string activation = lm.model().has_gates ? activation_text({lm.activation, Activation::kLinear})
                                                      : activation_text({lm.activation});
  if (!lm.experts)
    return fmt::format("{}: {{hidden_size: {}, activation: {}, bias: {}, kernel_initializer: {}}}",
                       kFeedForward, lm.intermediate, activation, lm.feed_forward_bias, initializer);
  const CausalLmExperts& experts = *lm.experts;
  std::string text = fmt::format(
      "{}:\n"
      "      {{num_experts: {}, hidden_size: {}, activation: {}, gating: top_k, dispatch: dropless,\n"
      "       experts_per_token: {}, normalize: {}, balance: {{coef: {}, scope: batch}}",
      kExperts, experts.count, lm.intermediate, activation, experts.per_token, experts.normalized,
      coefficient_text(experts.balance_coef * balance_ratio(lm)));
  if (experts.shared_hidden)
    text += fmt::format(",\n       shared_experts: 1, shared_hidden_size: {}, shared_gate: true",
                        *experts.shared_hidden);
  return text + "}";
}

/// The length of rows of texts, which is one for which the rotary positions are meant.
int64_t usual_length(const CausalLmConfig& lm) {
  const auto longest = lm.rotary_scaling ? (*lm.rotary_scaling)->longest_row() : std::nullopt;
  return std::min({kUsualTextLength, lm.max_positions, longest.value_or(kUsualTextLength)});
}

/// Lines of comments on the losses of experts.
std::string balance_comment(const CausalLmConfig& lm) {
  if (!lm.experts) return "";
  return fmt::format(
      "\n# Each layer of experts adds a balance loss. transformers has one loss of the mean loads of all "
      "layers, times\n"
      "# router_aux_loss_coef ({}), and adds it only with output_router_logits. `balance.coef` is this\n"
      "# coefficient * experts_per_token / num_layers: both losses are the same where the loads of the "
      "layers are alike.",
      lm.experts->balance_coef);
}

}  // namespace

CausalLmConfig causal_lm_of(const Config& config) {
  const Mark mark = config.mark("model");
  const ModelChoice options = parse_model_options(config.model);
  const auto* model = options.get_if<LanguageModelOptions>();
  if (!model) not_causal_lm(mark, "it is no language model", "type: lm");
  CausalLmLayers layers = read_causal_lm_layers(*model, mark);
  settle_family(layers);
  return layers.lm;
}

std::string causal_lm_yaml(const CausalLmConfig& lm, const ModelSurroundings& around) {
  const std::string initializer = fmt::format("{{type: normal, stddev: {}}}", lm.initializer_range);
  const CausalLmModel& traits = lm.model();
  const std::string norm = traits.has_layer_norm ? "layer_norm" : "rms_norm";
  const double dropout = traits.has_dropout ? lm.dropout : lm.attention_dropout;
  const std::string cap =
      lm.logit_soft_cap ? fmt::format("  logit_soft_cap: {}\n", *lm.logit_soft_cap) : std::string();
  const BlockText block = block_text(lm, norm, dropout, initializer);
  return fmt::format(
      R"({header}
# A language model that mtf-convert has made of {source}
{usage}{balance}
vars: {{dropout: {dropout}}}
data:
  train: {{type: text, path: texts.txt, join: document}}
  vocabulary: {vocabulary}
  sequence_length: {length}
model:
  type: lm
  num_layers: {layers}
  block: {block}
  sublayers: {sublayers}
  d_model: {hidden}
  positions: {positions}
  max_length: {max_positions}
  vocab_divisor: 1
  embedding: {{type: vocab, {embedding}, initializer: {initializer}}}
  shared_embedding_and_softmax: {tied}
{bias}{cap}  predict_padding: {predicts_padding}
  z_loss: 0
  layer_defaults:
    {norm}: {{epsilon: {epsilon}{norm_biases}}}
{attention}    {feed_forward}
optimizer: {{type: adamw, beta2: 0.95, weight_decay: 0.01, no_decay: [norm, bias], clip_norm: 1, scaled_steps: false}}
learning_rate: {{type: cosine, learning_rate: 2e-5, warmup_steps: 100, end: 0.1}}
train: {{steps: 1000, batch_size: 8}}
{infer}checkpoint: {{init: {{path: {path}}}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FILE")), fmt::arg("dropout", dropout),
      fmt::arg("vocabulary", around.vocabulary), fmt::arg("length", usual_length(lm)),
      fmt::arg("layers", lm.num_layers / lm.pattern()), fmt::arg("block", block.layers),
      fmt::arg("sublayers", sublayers_text(lm, norm, dropout)), fmt::arg("norm", norm),
      fmt::arg("hidden", lm.hidden), fmt::arg("positions", traits.has_learned_positions ? "learned" : "none"),
      fmt::arg("norm_biases", traits.has_norm_biases ? "" : ", bias: false"),
      fmt::arg("max_positions", lm.max_positions), fmt::arg("initializer", initializer),
      fmt::arg("tied", lm.tied), fmt::arg("cap", cap),
      fmt::arg("bias", lm.logit_bias ? "  logit_bias: true\n" : ""),
      fmt::arg("embedding", lm.is_gemma() ? "scale_like_classifier: true" : "scale_logits: false"),
      fmt::arg("predicts_padding", lm.predicts_padding), fmt::arg("epsilon", lm.epsilon),
      fmt::arg("attention", block.attention), fmt::arg("feed_forward", feed_forward_text(lm, initializer)),
      fmt::arg("balance", balance_comment(lm)), fmt::arg("infer", infer_line(around)),
      fmt::arg("path", quoted(around.target.path)));
}

}  // namespace mtf
