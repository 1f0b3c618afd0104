// The hyperparameters of a ConvNeXt, read from and written to Hugging Face's config.json and the configuration of this program.
// Liu et al., A ConvNet for the 2020s, 2022.
//
//   const ConvNextConfig network = parse_convnext_config(text, "convnext-tiny-224/config.json");
//   const std::string yaml = convnext_yaml(network, processor, {.source = "convnext-tiny-224", ...});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/image_processor.h"

namespace mtf {

/// The blocks between two halvings of an image.
struct ConvNextStage {
  int64_t filters = 96;
  int64_t depth = 1;

  friend bool operator==(const ConvNextStage&, const ConvNextStage&) = default;
};

/// The hyperparameters. The defaults are those of keys that config.json omits.
struct ConvNextConfig {
  int64_t channels = 3;
  int64_t patch = 4;  ///< windows of the first convolution, which do not overlap
  std::vector<ConvNextStage> stages = {{96, 3}, {192, 3}, {384, 9}, {768, 3}};
  Activation activation = Activation::kGeluErf;
  double epsilon = 1e-12;     ///< of the last norm
  double layer_scale = 1e-6;  ///< initial value of the scales of residuals; 0: there are none
  double drop =
      0;  ///< probability of leaving out the last block; those before have less, in equal steps from 0
  double initializer_range = 0.02;
  bool without_head = false;             ///< an encoder alone; only the weights determine it
  int64_t labels = 2;                    ///< rows of `classifier`, else as many as config.json names
  std::vector<std::string> label_names;  ///< in their order; empty: LABEL_0, LABEL_1, ...

  /// The width of the dense layers of a block.
  static int64_t widened(int64_t filters) { return 4 * filters; }
  int64_t blocks() const;
  /// The probability of leaving out block `i` of all.
  double drop_of(int64_t i) const;

  friend bool operator==(const ConvNextConfig&, const ConvNextConfig&) = default;
};

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for a ConvNeXt that this program cannot build.
ConvNextConfig parse_convnext_config(const std::string& json, const std::string& path);
std::string convnext_json(const ConvNextConfig& network);

/// The scopes of the variables of a block.
struct ConvNextBlock {
  std::string depthwise, norm, wi, wo, scale;
};

/// The ConvNeXt that a configuration of this program describes, without what only the weights determine: channels, labels and
/// their names.
struct ConvNextLayers {
  /// The scopes of a norm and a convolution.
  struct Reduction {
    std::string norm, convolution;
  };

  ConvNextConfig network;
  Reduction stem;
  std::vector<Reduction> reductions;  ///< before each stage but the first
  std::vector<std::vector<ConvNextBlock>> stages;
  std::string norm, classifier;
  bool drops_in_equal_steps =
      true;  ///< false: blocks are left out with other probabilities than config.json can say
};
/// Throws Error (kConfig), which says what differs from a ConvNeXt.
ConvNextLayers convnext_of(const config::Node& model);
/// Returns the text of config.yaml.
std::string convnext_yaml(const ConvNextConfig& network, const ImageProcessor& processor,
                          const ModelSurroundings& around);

}  // namespace mtf
