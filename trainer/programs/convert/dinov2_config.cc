// The config.json of a DINOv2.
#include <fmt/format.h>

#include <optional>

#include "engine/base/error.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/vit_config.h"

namespace mtf {
namespace {

constexpr const char *kPlainDinov2 = "dinov2", *kDinov2WithRegisters = "dinov2_with_registers";

/// The width of the feed-forward layers; gated ones have two thirds of it, as a multiple of 8.
int64_t dinov2_intermediate(int64_t hidden, int64_t ratio, bool is_gated) {
  return is_gated ? (hidden * ratio * 2 / 3 + 7) / 8 * 8 : hidden * ratio;
}

/// The `mlp_ratio` that gives this width, if there is one.
std::optional<int64_t> ratio_of(const VitConfig& vit) {
  for (int64_t ratio = 1; ratio <= vit.intermediate * 2 / vit.hidden + 1; ++ratio) {
    if (dinov2_intermediate(vit.hidden, ratio, vit.is_gated) == vit.intermediate) return ratio;
  }
  return std::nullopt;
}

}  // namespace

VitConfig parse_dinov2_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  const std::string type = json.text("model_type", kPlainDinov2);
  if (type != kPlainDinov2 && type != kDinov2WithRegisters)
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type),
              fmt::format("{} or {}", kPlainDinov2, kDinov2WithRegisters));
  json.require("qkv_bias", true, "queries, keys and values have biases");
  const bool has_registers = type == kDinov2WithRegisters;
  VitConfig vit;
  vit.kind = VitKind::kDinov2;
  vit.hidden = json.size("hidden_size", vit.hidden);
  vit.num_layers = json.size("num_hidden_layers", vit.num_layers);
  vit.num_heads = json.size("num_attention_heads", vit.num_heads);
  vit.is_gated = json.flag("use_swiglu_ffn", false);
  vit.intermediate = dinov2_intermediate(vit.hidden, json.size("mlp_ratio", 4), vit.is_gated);
  vit.channels = json.size("num_channels", vit.channels);
  vit.image = parse_image_size(json, "image_size", vit.image);
  vit.patch = parse_image_size(json, "patch_size", has_registers ? ImageSize{16, 16} : ImageSize{14, 14});
  vit.dropout = json.number("hidden_dropout_prob", 0);
  vit.attention_dropout = json.number("attention_probs_dropout_prob", 0);
  vit.drop = json.number("drop_path_rate", 0);
  vit.epsilon = json.number("layer_norm_eps", 1e-6);
  vit.initializer_range = json.number("initializer_range", vit.initializer_range);
  vit.layer_scale = json.positive("layerscale_value", 1);
  vit.activation = vit.is_gated ? Activation::kSwish : parse_activation(json, "hidden_act", "gelu");
  if (has_registers) vit.registers = json.size("num_register_tokens", 4);
  vit.label_names = parse_label_names(json);
  vit.labels = label_count(json, vit.labels);
  check_vit_sizes(json, vit);
  check_image_classifier(json, vit.channels);
  return vit;
}

std::string dinov2_json(const VitConfig& vit, const Mark& mark) {
  const std::optional<int64_t> ratio = ratio_of(vit);
  if (!ratio)
    throw Error(
        ErrorKind::kConfig, mark,
        fmt::format("a DINOv2 of width {} has no feed-forward layers of {}", vit.hidden, vit.intermediate),
        "a `hidden_size` of DenseReluDense that is a multiple of the width of the model");
  const std::string name = vit.registers > 0 ? "Dinov2WithRegisters" : "Dinov2";
  nlohmann::ordered_json json = {
      {"architectures", {name + (vit.without_head ? "Model" : "ForImageClassification")}},
      {"model_type", vit.registers > 0 ? kDinov2WithRegisters : kPlainDinov2},
      {"hidden_size", vit.hidden},
      {"num_hidden_layers", vit.num_layers},
      {"num_attention_heads", vit.num_heads},
      {"mlp_ratio", *ratio},
      {"hidden_act", activation_name(vit.is_gated ? Activation::kGeluErf : vit.activation)},
      {"hidden_dropout_prob", vit.dropout},
      {"attention_probs_dropout_prob", vit.attention_dropout},
      {"initializer_range", vit.initializer_range},
      {"layer_norm_eps", vit.epsilon},
      {"image_size", image_size_json(vit.image)},
      {"patch_size", image_size_json(vit.patch)},
      {"num_channels", vit.channels},
      {"qkv_bias", true},
      {"layerscale_value", vit.layer_scale},
      {"drop_path_rate", vit.drop},
      {"use_swiglu_ffn", vit.is_gated},
      {"torch_dtype", "float32"},
  };
  if (vit.registers > 0) json["num_register_tokens"] = vit.registers;
  add_label_names(vit.label_names, vit.labels, json);
  return json.dump(2) + "\n";
}

}  // namespace mtf
