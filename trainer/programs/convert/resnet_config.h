// The hyperparameters of a ResNet, read from and written to Hugging Face's config.json and the configuration of this program.
// He et al., Deep Residual Learning for Image Recognition, 2016.
//
//   const ResNetConfig resnet = parse_resnet_config(text, "resnet-50/config.json");
//   const std::string yaml = resnet_yaml(resnet, processor, {.source = "resnet-50", ...});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/image_processor.h"

namespace mtf {

/// What `transformers` has within blocks, whatever `hidden_act` says.
inline constexpr Activation kActivationInBlocks = Activation::kRelu;

/// The layers between two halvings of an image.
struct ResNetStage {
  int64_t filters = 256;  ///< channels of what it makes
  int64_t depth = 1;      ///< blocks
  bool halves = false;    ///< its first block moves its windows by 2

  friend bool operator==(const ResNetStage&, const ResNetStage&) = default;
};

/// The hyperparameters. The defaults are those of keys that config.json omits.
struct ResNetConfig {
  int64_t channels = 3;
  int64_t stem = 64;  ///< channels that the first convolution makes
  std::vector<ResNetStage> stages = {{256, 3, false}, {512, 4, true}, {1024, 6, true}, {2048, 3, true}};
  bool is_bottleneck = true;  ///< three convolutions in a block; else two
  bool halves_in_first =
      false;  ///< the first convolution of a bottleneck moves its windows by 2, and not the second
  Activation activation = Activation::kRelu;  ///< behind the first convolution and the blocks
  bool without_head = false;                  ///< an encoder alone; only the weights determine it
  int64_t labels = 2;                         ///< rows of `classifier.1`, else as many as config.json names
  std::vector<std::string> label_names;       ///< in their order; empty: LABEL_0, LABEL_1, ...

  /// The channels in the middle of a bottleneck.
  static int64_t reduced(int64_t filters) { return filters / 4; }

  friend bool operator==(const ResNetConfig&, const ResNetConfig&) = default;
};

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for a ResNet that this program cannot build.
ResNetConfig parse_resnet_config(const std::string& json, const std::string& path);
std::string resnet_json(const ResNetConfig& resnet);

/// A convolution without bias and the batch norm behind it.
struct ResNetConvolution {
  std::string convolution, norm;  ///< scopes of their variables
  int64_t kernel = 1;
  int64_t filters = 0;
  int64_t stride = 1;
};

/// A residual block: the convolutions of the branch, and that of the shortcut, if it has one.
struct ResNetBlock {
  std::vector<ResNetConvolution> branch, shortcut;
};

/// The ResNet that a configuration of this program describes, without what only the weights determine: channels, labels and
/// their names.
struct ResNetLayers {
  ResNetConfig resnet;
  ResNetConvolution stem;
  std::vector<std::vector<ResNetBlock>> stages;
  std::string classifier;  ///< scope
};
/// Throws Error (kConfig), which says what differs from a ResNet.
ResNetLayers resnet_of(const config::Node& model);
/// Returns the text of config.yaml.
std::string resnet_yaml(const ResNetConfig& resnet, const ImageProcessor& processor,
                        const ModelSurroundings& around);

}  // namespace mtf
