// The hyperparameters of a ViT, read from and written to Hugging Face's config.json and the configuration of this program.
// Dosovitskiy et al., An Image is Worth 16x16 Words, 2021.
//
//   const VitConfig vit = parse_vit_config(text, "vit-base-patch16-224/config.json");
//   const std::string yaml = vit_yaml(vit, processor, {.source = "vit-base-patch16-224", ...});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/image_processor.h"

namespace mtf {

/// The hyperparameters. The defaults are those of keys that config.json omits.
struct VitConfig {
  int64_t hidden = 768;
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  int64_t intermediate = 3072;
  int64_t channels = 3;
  ImageSize image = {224, 224};
  ImageSize patch = {16, 16};
  double dropout = 0;
  double attention_dropout = 0;
  double epsilon = 1e-12;
  double initializer_range = 0.02;
  Activation activation = Activation::kGeluErf;
  Activation pooler_activation = Activation::kTanh;
  bool has_pooler = false;               ///< only the weights determine it
  bool without_head = false;             ///< an encoder alone; only the weights determine it
  int64_t labels = 2;                    ///< rows of `classifier`, else as many as config.json names
  std::vector<std::string> label_names;  ///< in their order; empty: LABEL_0, LABEL_1, ...

  int64_t patches() const { return image.rows / patch.rows * (image.cols / patch.cols); }

  friend bool operator==(const VitConfig&, const VitConfig&) = default;
};

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for a ViT that this program cannot build.
VitConfig parse_vit_config(const std::string& json, const std::string& path);
std::string vit_json(const VitConfig& vit);

/// The scopes of a ViT's variables in a configuration.
struct VitScopes {
  std::string patches, class_token, positions, transformer, pooler, classifier;
};

/// The ViT that a configuration of this program describes, without what only weights and data determine: hidden, channels,
/// image, labels and their names.
struct VitLayers {
  VitConfig vit;
  VitScopes scopes;
};
/// Throws Error (kConfig), which says what differs from a ViT.
VitLayers vit_of(const config::Node& model);
/// Returns the text of config.yaml.
std::string vit_yaml(const VitConfig& vit, const ImageProcessor& processor, const ModelSurroundings& around);

}  // namespace mtf
