// Reads what config.json of a language model says of rotary positions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "trainer/programs/convert/causal_lm_parsing.h"

namespace mtf {
namespace {

/// What config.json says of rotary positions, under one key or another. Some keys stand in it or beside it.
struct RopeJson {
  HuggingFaceJson rope;
  const HuggingFaceJson& beside;

  double required(const char* key) const {
    if (!rope.has(key)) rope.fail(fmt::format("there is no `{}`", key), "a number");
    return rope.positive(key, 0);
  }
  /// transformers takes what stands beside the other keys first.
  int64_t original_length() const {
    const char* const length = "original_max_position_embeddings";
    const int64_t size = beside.size(length, rope.size(length, beside.size("max_position_embeddings", 0)));
    if (size == 0) rope.fail(fmt::format("there is no `{}`", length), "a number");
    return size;
  }
};

Llama3RotaryScaling parse_llama3(const RopeJson& json) {
  Llama3RotaryScaling llama3;
  llama3.factor = json.required("factor");
  llama3.low_frequency = json.required("low_freq_factor");
  llama3.high_frequency = json.required("high_freq_factor");
  if (llama3.high_frequency <= llama3.low_frequency)
    json.rope.fail("`high_freq_factor` must be more than `low_freq_factor`",
                   "4 and 1, as Llama 3.1 has them");
  llama3.original_length = json.original_length();
  return llama3;
}

/// A factor that is null is that of the lengths.
YarnRotaryScaling parse_yarn(const RopeJson& json, const CausalLmConfig& lm) {
  const HuggingFaceJson& rope = json.rope;
  YarnRotaryScaling yarn;
  yarn.original_length = json.original_length();
  yarn.factor = rope.has_null("factor")
                    ? static_cast<double>(lm.max_positions) / static_cast<double>(yarn.original_length)
                    : json.required("factor");
  yarn.beta_fast = rope.positive("beta_fast", yarn.beta_fast);
  yarn.beta_slow = rope.positive("beta_slow", yarn.beta_slow);
  if (yarn.beta_fast < yarn.beta_slow)
    rope.fail("`beta_fast` must be `beta_slow` at least", "32 and 1, as in the paper");
  yarn.truncate = rope.flag("truncate", true);
  if (lm.rotary_base <= 1) rope.fail("yarn needs a `rope_theta` of more than 1", "10000");
  const auto magnitude = [&](double scale) {
    return yarn.factor <= 1 ? 1 : 0.1 * scale * std::log(yarn.factor) + 1;
  };
  if (rope.has("attention_factor")) {
    yarn.attention_factor = rope.positive("attention_factor", 1);
  } else if (rope.has("mscale") && rope.has("mscale_all_dim")) {
    yarn.attention_factor =
        magnitude(rope.positive("mscale", 1)) / magnitude(rope.positive("mscale_all_dim", 1));
  }
  return yarn;
}

/// Returns the divisors of the angles of all pairs.
std::vector<double> parse_divisors(const HuggingFaceJson& rope, const char* key, const CausalLmConfig& lm) {
  const int64_t pairs = lm.rotary_size.value_or(lm.head_size) / 2;
  const std::string right = fmt::format("{} numbers above 0, one for each pair of entries", pairs);
  if (!rope.has(key)) rope.fail(fmt::format("there is no `{}`", key), right);
  const nlohmann::json& given = rope.at(key);
  std::vector<double> divisors;
  for (const nlohmann::json& number : given.is_array() ? given : nlohmann::json::array())
    divisors.push_back(number.is_number() ? number.get<double>() : 0);
  if (std::ssize(divisors) != pairs || std::ranges::any_of(divisors, [](double value) { return value <= 0; }))
    rope.fail(fmt::format("`{}` is no list of {}", key, right), right);
  return divisors;
}

/// The factor is that of the lengths where the file does not say.
LongRotaryScaling parse_longrope(const RopeJson& json, const CausalLmConfig& lm) {
  LongRotaryScaling longrope;
  longrope.original_length = json.original_length();
  longrope.factor = json.rope.positive(
      "factor", static_cast<double>(lm.max_positions) / static_cast<double>(longrope.original_length));
  longrope.short_factor = parse_divisors(json.rope, "short_factor", lm);
  longrope.long_factor = parse_divisors(json.rope, "long_factor", lm);
  if (json.rope.has("attention_factor"))
    longrope.attention_factor = json.rope.positive("attention_factor", 1);
  return longrope;
}

/// Returns how rotary positions are scaled. Phi-3 once had other names for longrope.
std::optional<RotaryScalingChoice> parse_scaling(const RopeJson& json, CausalLmConfig& lm) {
  const std::string type = json.rope.text("rope_type", json.rope.text("type", "default"));
  if (type == "dynamic")
    lm.notes.push_back(
        fmt::format("`rope_scaling` of the type dynamic is left out: it changes the angles of texts of more "
                    "than {} tokens",
                    lm.max_positions));
  if (type == "default" || type == "dynamic") return std::nullopt;
  if (type == "llama3") return parse_llama3(json);
  const bool is_phi3 = lm.family == CausalLmFamily::kPhi3;
  if (type == "longrope" || (is_phi3 && (type == "su" || type == "yarn"))) return parse_longrope(json, lm);
  if (type == "yarn") return parse_yarn(json, lm);
  if (type != "linear")
    json.rope.fail(fmt::format("`rope_type` is {}, which cannot be converted", type),
                   "one of default, dynamic, linear, llama3, longrope, yarn");
  LinearRotaryScaling linear;
  linear.factor = json.required("factor");
  return linear;
}

/// Sets how many entries of a head are turned.
void parse_rotary_size(const RopeJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  if (const char* const size = "rotary_dim"; lm.family == CausalLmFamily::kGptJ) {
    const int64_t entries = json.beside.has_null(size) ? lm.head_size : json.beside.size(size, 64);
    if (entries > lm.head_size || entries % 2 != 0)
      json.beside.fail(
          fmt::format("{} of the {} entries of a head have rotary positions", entries, lm.head_size),
          fmt::format("an even `{}` up to {}", size, lm.head_size));
    if (entries < lm.head_size) lm.rotary_size = entries;
    return;
  }
  const char *const share_key = "partial_rotary_factor", *const whole = "all entries of a head are turned";
  const bool is_neox = lm.family == CausalLmFamily::kGptNeoX;
  if (model.rotary_share == 0) {
    json.beside.require(share_key, 1.0, whole);
    json.rope.require(share_key, 1.0, whole);
  }
  const double beside = json.beside.positive(is_neox ? "rotary_pct" : share_key,
                                             model.rotary_share > 0 ? model.rotary_share : 1);
  const double share = json.rope.positive(share_key, beside);
  const auto turned = static_cast<int64_t>(static_cast<double>(lm.head_size) * share);
  if (share > 1 || turned == 0 || turned % 2 != 0)
    json.rope.fail(fmt::format("{} of the {} entries of a head have rotary positions", turned, lm.head_size),
                   fmt::format("a `{}` that makes an even number of them", share_key));
  if (turned < lm.head_size) lm.rotary_size = turned;
}

}  // namespace

void parse_causal_lm_rotary(const HuggingFaceJson& json, const CausalLmModel& model, CausalLmConfig& lm) {
  const char *const scaling = "rope_scaling", *const parameters = "rope_parameters";
  const bool has_scaling = json.has(scaling) && !json.at(scaling).empty();
  HuggingFaceJson rope = json.object(has_scaling ? scaling : parameters);
  std::optional<double> base;
  if (model.has_local_rotary) {
    const HuggingFaceJson each = json.object(parameters);
    const HuggingFaceJson local = each.object("sliding_attention"), full = each.object("full_attention");
    local.require("rope_type", "default", "rotary positions of local attention are not scaled");
    const double otherwise = lm.family == CausalLmFamily::kGemma3
                                 ? json.positive("rope_local_base_freq", 10000)
                                 : json.positive("rope_theta", model.rotary_base);
    lm.local_rotary_base = local.positive("rope_theta", otherwise);
    if (full.has("rope_theta")) base = full.positive("rope_theta", 0);
    if (!has_scaling && (each.has("full_attention") || each.has("sliding_attention"))) rope = full;
  }
  const char* const base_key = lm.family == CausalLmFamily::kGptNeoX ? "rotary_emb_base" : "rope_theta";
  lm.rotary_base = rope.positive("rope_theta", base.value_or(json.positive(base_key, model.rotary_base)));
  const RopeJson both{rope, json};
  parse_rotary_size(both, model, lm);
  lm.rotary_scaling = parse_scaling(both, lm);
}

}  // namespace mtf
