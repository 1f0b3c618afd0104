#include "trainer/programs/convert/convnext_config.h"

#include <fmt/format.h>

#include "trainer/programs/convert/image_network.h"

namespace mtf {
namespace {

void parse_convnext_stages(const HuggingFaceJson& json, std::vector<ConvNextStage>& stages) {
  std::vector<int64_t> filters, depths;
  for (const ConvNextStage& stage : stages) {
    filters.push_back(stage.filters);
    depths.push_back(stage.depth);
  }
  filters = sizes_of(json, "hidden_sizes").value_or(filters);
  depths = sizes_of(json, "depths").value_or(depths);
  if (filters.size() != depths.size())
    json.fail(fmt::format("`hidden_sizes` has {} numbers and `depths` {}", filters.size(), depths.size()),
              "one for each stage");
  json.require("num_stages", filters.size(), "`hidden_sizes` has a number for each stage");
  stages.clear();
  for (size_t i = 0; i < filters.size(); ++i) stages.push_back({filters[i], depths[i]});
}

}  // namespace

int64_t ConvNextConfig::blocks() const {
  int64_t sum = 0;
  for (const ConvNextStage& stage : stages) sum += stage.depth;
  return sum;
}

double ConvNextConfig::drop_of(int64_t i) const {
  const int64_t last = blocks() - 1;
  return last > 0 ? drop * static_cast<double>(i) / static_cast<double>(last) : 0;
}

ConvNextConfig parse_convnext_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "convnext"); type != "convnext")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type), "convnext");
  ConvNextConfig network;
  network.channels = json.size("num_channels", network.channels);
  const ImageSize patch = parse_image_size(json, "patch_size", {network.patch, network.patch});
  if (patch.rows != patch.cols)
    json.fail(fmt::format("`patch_size` is {} x {}, which cannot be converted", patch.rows, patch.cols),
              "a square");
  network.patch = patch.rows;
  parse_convnext_stages(json, network.stages);
  network.activation = parse_activation(json, "hidden_act", "gelu");
  network.epsilon = json.number("layer_norm_eps", network.epsilon);
  const char* const scale = "layer_scale_init_value";
  network.layer_scale =
      json.has(scale) && json.at(scale) == 0 ? 0 : json.positive(scale, network.layer_scale);
  network.drop = json.number("drop_path_rate", network.drop);
  network.initializer_range = json.number("initializer_range", network.initializer_range);
  network.label_names = parse_label_names(json);
  network.labels = label_count(json, network.labels);
  check_image_classifier(json, network.channels);
  return network;
}

std::string convnext_json(const ConvNextConfig& network) {
  std::vector<int64_t> filters, depths;
  for (const ConvNextStage& stage : network.stages) {
    filters.push_back(stage.filters);
    depths.push_back(stage.depth);
  }
  nlohmann::ordered_json json = {
      {"architectures", {network.without_head ? "ConvNextModel" : "ConvNextForImageClassification"}},
      {"model_type", "convnext"},
      {"num_channels", network.channels},
      {"patch_size", network.patch},
      {"num_stages", network.stages.size()},
      {"hidden_sizes", filters},
      {"depths", depths},
      {"hidden_act", activation_name(network.activation)},
      {"layer_norm_eps", network.epsilon},
      {"layer_scale_init_value", network.layer_scale},
      {"drop_path_rate", network.drop},
      {"initializer_range", network.initializer_range},
      {"torch_dtype", "float32"},
  };
  add_label_names(network.label_names, network.labels, json);
  return json.dump(2) + "\n";
}

}  // namespace mtf
