#include "trainer/programs/convert/resnet_config.h"

#include <fmt/format.h>

#include "trainer/programs/convert/image_network.h"

namespace mtf {
namespace {

void parse_stages(const HuggingFaceJson& json, std::vector<ResNetStage>& stages) {
  std::vector<int64_t> filters, depths;
  for (const ResNetStage& stage : stages) {
    filters.push_back(stage.filters);
    depths.push_back(stage.depth);
  }
  filters = sizes_of(json, "hidden_sizes").value_or(filters);
  depths = sizes_of(json, "depths").value_or(depths);
  if (filters.size() != depths.size())
    json.fail(fmt::format("`hidden_sizes` has {} numbers and `depths` {}", filters.size(), depths.size()),
              "one for each stage");
  const bool first_halves = json.flag("downsample_in_first_stage", false);
  stages.clear();
  for (size_t i = 0; i < filters.size(); ++i)
    stages.push_back({filters[i], depths[i], i > 0 || first_halves});
}

}  // namespace

ResNetConfig parse_resnet_config(const std::string& text, const std::string& path) {
  const HuggingFaceJson json(text, path);
  if (const std::string type = json.text("model_type", "resnet"); type != "resnet")
    json.fail(fmt::format("`model_type` is {}, which cannot be converted", type), "resnet");
  ResNetConfig resnet;
  resnet.channels = json.size("num_channels", resnet.channels);
  resnet.stem = json.size("embedding_size", resnet.stem);
  const std::string layer = json.text("layer_type", "bottleneck");
  if (layer != "basic" && layer != "bottleneck")
    json.fail(fmt::format("`layer_type` is {}, which cannot be converted", layer), "basic or bottleneck");
  resnet.is_bottleneck = layer == "bottleneck";
  resnet.halves_in_first = resnet.is_bottleneck && json.flag("downsample_in_bottleneck", false);
  resnet.activation = parse_activation(json, "hidden_act", "relu");
  parse_stages(json, resnet.stages);
  for (const ResNetStage& stage : resnet.stages) {
    if (resnet.is_bottleneck && ResNetConfig::reduced(stage.filters) == 0)
      json.fail(fmt::format("`hidden_sizes` has {}, and a bottleneck a quarter of it", stage.filters),
                "at least 4");
  }
  resnet.label_names = parse_label_names(json);
  resnet.labels = label_count(json, resnet.labels);
  check_image_classifier(json, resnet.channels);
  return resnet;
}

std::string resnet_json(const ResNetConfig& resnet) {
  std::vector<int64_t> filters, depths;
  for (const ResNetStage& stage : resnet.stages) {
    filters.push_back(stage.filters);
    depths.push_back(stage.depth);
  }
  nlohmann::ordered_json json = {
      {"architectures", {resnet.without_head ? "ResNetModel" : "ResNetForImageClassification"}},
      {"model_type", "resnet"},
      {"num_channels", resnet.channels},
      {"embedding_size", resnet.stem},
      {"hidden_sizes", filters},
      {"depths", depths},
      {"layer_type", resnet.is_bottleneck ? "bottleneck" : "basic"},
      {"hidden_act", activation_name(resnet.activation)},
      {"downsample_in_first_stage", resnet.stages[0].halves},
      {"downsample_in_bottleneck", resnet.halves_in_first},
      {"torch_dtype", "float32"},
  };
  add_label_names(resnet.label_names, resnet.labels, json);
  return json.dump(2) + "\n";
}

}  // namespace mtf
