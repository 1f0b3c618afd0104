// The hyperparameters of a ViT, read from and written to Hugging Face's config.json and the configuration of this program.
// Dosovitskiy et al., An Image is Worth 16x16 Words, 2021. A DINOv2 (Oquab et al. 2024) is a ViT whose residuals are scaled
// (layer_scale), whose classes are those of the class token and the mean of the patches, and that may have registers.
//
//   const VitConfig vit = parse_vit_config(text, "vit-base-patch16-224/config.json");
//   const std::string yaml = vit_yaml(vit, processor, {.source = "vit-base-patch16-224", ...});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/activation.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"
#include "trainer/programs/convert/image_processor.h"

namespace mtf {

enum class VitKind { kVit, kDinov2 };
/// "ViT", "DINOv2"
std::string_view title_of(VitKind kind);

/// The hyperparameters. The defaults are those of keys that config.json omits, for a ViT.
struct VitConfig {
  VitKind kind = VitKind::kVit;
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
  int64_t registers = 0;      ///< DINOv2: vectors between the class token and the patches
  bool is_gated = false;      ///< DINOv2: swish(x wi_0) * (x wi_1) in the place of activation(x wi)
  double layer_scale = 1;     ///< DINOv2: initial value of the scales of residuals
  double drop = 0;            ///< DINOv2: probability of leaving a residual out (stochastic depth)
  bool has_pooler = false;    ///< only the weights determine it
  bool without_head = false;  ///< an encoder alone; only the weights determine it
  int64_t labels = 2;         ///< rows of `classifier`, else as many as config.json names
  std::vector<std::string> label_names;  ///< in their order; empty: LABEL_0, LABEL_1, ...

  int64_t patches() const { return image.rows / patch.rows * (image.cols / patch.cols); }

  friend bool operator==(const VitConfig&, const VitConfig&) = default;
};

/// Parses config.json; `path` names the text in messages. Throws Error (kCheckpoint) for a damaged text, for other models, and
/// for a ViT that this program cannot build.
VitConfig parse_vit_config(const std::string& json, const std::string& path);
std::string vit_json(const VitConfig& vit);
/// The same for a DINOv2, with registers or without. dinov2_json() throws Error (kConfig) with `mark` for a width of the
/// feed-forward layers that config.json cannot say.
VitConfig parse_dinov2_config(const std::string& json, const std::string& path);
std::string dinov2_json(const VitConfig& vit, const Mark& mark);
/// Throws Error (kCheckpoint) where heads do not divide the width, or patches the image.
void check_vit_sizes(const HuggingFaceJson& json, const VitConfig& vit);

/// The scopes of a ViT's variables in a configuration.
struct VitScopes {
  std::string patches, class_token, positions, registers, transformer, pooler, classifier;
};

/// The ViT that a configuration of this program describes, without what only weights and data determine: hidden, channels,
/// image, labels and their names.
struct VitLayers {
  VitConfig vit;
  VitScopes scopes;
};
/// Throws Error (kConfig), which says what differs from a model of this kind.
VitLayers vit_of(const config::Node& model, VitKind kind = VitKind::kVit);
/// Returns the text of config.yaml.
std::string vit_yaml(const VitConfig& vit, const ImageProcessor& processor, const ModelSurroundings& around);

}  // namespace mtf
