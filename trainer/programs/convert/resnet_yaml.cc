// Converts a ResNet to a configuration of this program.
#include <fmt/format.h>

#include "engine/base/printable.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/layer_options.h"
#include "trainer/programs/convert/resnet_config.h"

namespace mtf {
namespace {

/// The blocks that stages are made of: `convolutions`, and with and without a shortcut `other` and `same`.
std::string blocks_yaml(const ResNetConfig& resnet) {
  const auto activation = [](Activation function) {
    return fmt::format("      - activation: {}\n", activation_text({function}));
  };
  const std::string inner = activation(kActivationInBlocks);
  const auto convolution = [](int number, const char* filters, int64_t kernel, bool strided) {
    return fmt::format(
        "      - conv2d: {{name: conv_{0}, output: {{filters: {1}}}, kernel: {2}, stride: {3}, padding: "
        "{4}}}\n"
        "      - batch_norm: {{name: norm_{0}}}\n",
        number, filters, kernel, strided ? "$stride" : "1", kernel / 2);
  };
  const bool in_first = resnet.halves_in_first;
  const std::string convolutions =
      resnet.is_bottleneck
          ? convolution(1, "$reduced", 1, in_first) + inner + convolution(2, "$reduced", 3, !in_first) +
                inner + convolution(3, "$filters", 1, false)
          : convolution(1, "$filters", 3, true) + inner + convolution(2, "$filters", 3, false);
  const std::string reduced = resnet.is_bottleneck ? ", reduced: $reduced" : "";
  return fmt::format(R"(    convolutions:
{0}    same:
      - residual: {{layers: [block: {{use: convolutions, filters: $filters{1}, stride: 1}}]}}
{2}    other:
      - residual:
          layers: [block: {{use: convolutions, filters: $filters{1}, stride: $stride}}]
          shortcut: [conv2d: {{output: {{filters: $filters}}, kernel: 1, stride: $stride, padding: 0}}, batch_norm]
{2})",
                     convolutions, reduced, activation(resnet.activation));
}

std::string stages_yaml(const ResNetConfig& resnet) {
  std::string text;
  int64_t before = resnet.stem;
  for (size_t i = 0; i < resnet.stages.size(); ++i) {
    const ResNetStage& stage = resnet.stages[i];
    const std::string filters = resnet.is_bottleneck ? fmt::format("filters: {}, reduced: {}", stage.filters,
                                                                   ResNetConfig::reduced(stage.filters))
                                                     : fmt::format("filters: {}", stage.filters);
    const bool has_shortcut = stage.halves || stage.filters != before;
    if (has_shortcut)
      text += fmt::format("    - block: {{name: stage_{}_first, use: other, {}, stride: {}}}\n", i + 1,
                          filters, stage.halves ? 2 : 1);
    if (const int64_t times = stage.depth - (has_shortcut ? 1 : 0); times > 0)
      text += fmt::format("    - repeat: {{name: stage_{}, times: {}, layers: [block: {{use: same, {}}}]}}\n",
                          i + 1, times, filters);
    before = stage.filters;
  }
  return text;
}

}  // namespace

std::string resnet_yaml(const ResNetConfig& resnet, const ImageProcessor& processor,
                        const ModelSurroundings& around) {
  return fmt::format(
      R"({header}
# A ResNet that mtf-convert has made of {source}
{usage}
vars: {{classes: {classes}}}
data:
{data}model:
  type: classifier
  blocks:
{blocks}  layers:
    - conv2d: {{name: stem, output: {{filters: {stem}}}, kernel: 7, stride: 2, padding: 3}}
    - batch_norm: {{name: stem_norm}}
    - activation: {activation}
    - max_pool: {{size: 3, stride: 2, padding: 1}}
{stages}    - global_average_pool
    - dense: {{name: logits, output: {{classes: $classes}}}}
  layer_defaults:
    conv2d: {{bias: false, kernel_initializer: {{type: variance_scaling, scale: 2, mode: fan_out}}}}
    batch_norm: {{epsilon: 1e-5, momentum: 0.9}}
optimizer: {{type: momentum, momentum: 0.9, weight_decay: 1e-4}}
learning_rate: 0.01
train: {{steps: 10000, batch_size: 32}}
checkpoint: {{init: {init}}}
)",
      fmt::arg("header", kResolvedHeader), fmt::arg("source", printable(around.source)),
      fmt::arg("usage", usage_comment(around, "data.train.path=FOLDER")), fmt::arg("classes", resnet.labels),
      fmt::arg("data", image_data_yaml(processor, resnet.channels)), fmt::arg("blocks", blocks_yaml(resnet)),
      fmt::arg("stem", resnet.stem), fmt::arg("activation", activation_text({resnet.activation})),
      fmt::arg("stages", stages_yaml(resnet)),
      fmt::arg("init", image_init(around.target.path, resnet.without_head)));
}

}  // namespace mtf
