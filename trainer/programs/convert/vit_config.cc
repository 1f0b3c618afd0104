#include "trainer/programs/convert/vit_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/programs/convert/image_network.h"

namespace mtf {
namespace {

/// Throws Error for heads that no classifier here has.
void check_vit_task(const HuggingFaceJson& json) {
  const nlohmann::json architectures =
      json.has("architectures") ? json.at("architectures") : nlohmann::json::array();
  if (std::ranges::find(architectures, "ViTForMaskedImageModeling") != architectures.end())
    json.fail("a ViTForMaskedImageModeling cannot be converted: no model here predicts hidden patches",
              "a ViTForImageClassification or a ViTModel");
}

}  // namespace

std::string_view title_of(VitKind kind) { return kind == VitKind::kVit ? "ViT" : "DINOv2"; }

VitConfig parse_vit_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "vit"); type != "vit")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type),
              type == "deit" ? "a DeiT without a distillation token, whose `model_type` is vit" : "vit");
  json.require("qkv_bias", true, "queries, keys and values have biases");
  check_vit_task(json);
  VitConfig vit;
  vit.hidden = json.size("hidden_size", vit.hidden);
  vit.num_layers = json.size("num_hidden_layers", vit.num_layers);
  vit.num_heads = json.size("num_attention_heads", vit.num_heads);
  vit.intermediate = json.size("intermediate_size", vit.intermediate);
  vit.channels = json.size("num_channels", vit.channels);
  vit.image = parse_image_size(json, "image_size", vit.image);
  vit.patch = parse_image_size(json, "patch_size", vit.patch);
  vit.dropout = json.number("hidden_dropout_prob", vit.dropout);
  vit.attention_dropout = json.number("attention_probs_dropout_prob", vit.attention_dropout);
  vit.epsilon = json.number("layer_norm_eps", vit.epsilon);
  vit.initializer_range = json.number("initializer_range", vit.initializer_range);
  vit.activation = parse_activation(json, "hidden_act", "gelu");
  vit.pooler_activation = parse_activation(json, "pooler_act", "tanh");
  json.require("pooler_output_size", vit.hidden, "the pooler keeps `hidden_size`");
  vit.label_names = parse_label_names(json);
  vit.labels = label_count(json, vit.labels);
  check_vit_sizes(json, vit);
  check_image_classifier(json, vit.channels);
  return vit;
}

void check_vit_sizes(const HuggingFaceJson& json, const VitConfig& vit) {
  if (vit.hidden % vit.num_heads != 0)
    json.fail(fmt::format("`hidden_size` {} cannot be divided among {} heads", vit.hidden, vit.num_heads));
  if (vit.image.rows % vit.patch.rows != 0 || vit.image.cols % vit.patch.cols != 0)
    json.fail(fmt::format("an image of {} x {} cannot be cut into patches of {} x {}", vit.image.rows,
                          vit.image.cols, vit.patch.rows, vit.patch.cols),
              "an `image_size` that is a multiple of `patch_size`");
}

std::string vit_json(const VitConfig& vit) {
  nlohmann::ordered_json json = {
      {"architectures", {vit.without_head ? "ViTModel" : "ViTForImageClassification"}},
      {"model_type", "vit"},
      {"hidden_size", vit.hidden},
      {"num_hidden_layers", vit.num_layers},
      {"num_attention_heads", vit.num_heads},
      {"intermediate_size", vit.intermediate},
      {"hidden_act", activation_name(vit.activation)},
      {"hidden_dropout_prob", vit.dropout},
      {"attention_probs_dropout_prob", vit.attention_dropout},
      {"initializer_range", vit.initializer_range},
      {"layer_norm_eps", vit.epsilon},
      {"image_size", image_size_json(vit.image)},
      {"patch_size", image_size_json(vit.patch)},
      {"num_channels", vit.channels},
      {"qkv_bias", true},
      {"pooler_output_size", vit.hidden},
      {"pooler_act", activation_name(vit.pooler_activation)},
      {"torch_dtype", "float32"},
  };
  add_label_names(vit.label_names, vit.labels, json);
  return json.dump(2) + "\n";
}

}  // namespace mtf
