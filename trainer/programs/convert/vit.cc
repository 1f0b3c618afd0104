#include "trainer/programs/convert/vit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "data/class_names.h"
#include "engine/base/error.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/image_tensors.h"
#include "trainer/programs/convert/position_grid.h"
#include "trainer/programs/convert/vit_config.h"

namespace mtf {
namespace {

constexpr const char *kVitClassifier = "classifier.weight", *kVitPooler = "pooler.dense.weight";
/// The vector of hidden patches in pretraining.
constexpr const char* kMaskToken = "embeddings.mask_token";

/// What the names of a classifier's encoder begin with.
std::string prefix_of(const VitConfig& vit) {
  if (vit.kind == VitKind::kVit) return "vit.";
  return vit.registers > 0 ? "dinov2_with_registers." : "dinov2.";
}

/// Adds kernel and bias of a dense layer.
void add_dense(const std::string& scope, const std::string& name, int64_t inputs, int64_t outputs,
               std::vector<ImageTensor>& tensors) {
  tensors.push_back(matrix_tensor(scope + "/kernel", name + ".weight", inputs, outputs));
  tensors.push_back(same_tensor(scope + "/bias", name + ".bias", {outputs}));
}

void add_layer_norm(const std::string& scope, const std::string& name, int64_t size,
                    std::vector<ImageTensor>& tensors) {
  tensors.push_back(same_tensor(scope + "/layer_norm/layer_norm_scale", name + ".weight", {size}));
  tensors.push_back(same_tensor(scope + "/layer_norm/layer_norm_bias", name + ".bias", {size}));
}

void add_attention(const std::string& scope, const std::string& name, int64_t hidden,
                   std::vector<ImageTensor>& tensors) {
  constexpr std::array<std::pair<const char*, const char*>, 4> projections = {
      {{"q", "attention.query"}, {"k", "attention.key"}, {"v", "attention.value"}, {"o", "output.dense"}}};
  for (const auto& [ours, theirs] : projections) {
    const std::string variable = fmt::format("{}/layer_000/SelfAttention/{}", scope, ours),
                      tensor = fmt::format("{}.attention.{}", name, theirs);
    tensors.push_back(matrix_tensor(variable, tensor + ".weight", hidden, hidden));
    tensors.push_back(same_tensor(variable + "_bias", tensor + ".bias", {hidden}));
  }
}

void add_block(const std::string& scope, const std::string& name, const VitConfig& vit,
               std::vector<ImageTensor>& tensors) {
  add_layer_norm(scope + "/layer_000", name + ".layernorm_before", vit.hidden, tensors);
  add_attention(scope, name, vit.hidden, tensors);
  add_layer_norm(scope + "/layer_001", name + ".layernorm_after", vit.hidden, tensors);
  add_dense(scope + "/layer_001/DenseReluDense/wi", name + ".intermediate.dense", vit.hidden,
            vit.intermediate, tensors);
  add_dense(scope + "/layer_001/DenseReluDense/wo", name + ".output.dense", vit.intermediate, vit.hidden,
            tensors);
}

void add_dinov2_block(const std::string& scope, const std::string& name, const VitConfig& vit,
                      std::vector<ImageTensor>& tensors) {
  const std::string feed_forward = scope + "/layer_001/DenseReluDense";
  add_attention(scope, name, vit.hidden, tensors);
  for (int i = 0; i < 2; ++i) {
    const std::string layer = fmt::format("{}/layer_{:03}", scope, i);
    add_layer_norm(layer, fmt::format("{}.norm{}", name, i + 1), vit.hidden, tensors);
    tensors.push_back(same_tensor(layer + "/layer_scale/layer_scale",
                                  fmt::format("{}.layer_scale{}.lambda1", name, i + 1), {vit.hidden}));
  }
  if (!vit.is_gated) {
    add_dense(feed_forward + "/wi", name + ".mlp.fc1", vit.hidden, vit.intermediate, tensors);
    add_dense(feed_forward + "/wo", name + ".mlp.fc2", vit.intermediate, vit.hidden, tensors);
    return;
  }
  std::vector<ImageTensor> kernels, biases;
  for (int i = 0; i < 2; ++i) {
    std::vector<ImageTensor> half;
    add_dense(fmt::format("{}/wi_{}", feed_forward, i), name + ".mlp.weights_in", vit.hidden,
              vit.intermediate, half);
    kernels.push_back(part_of(half[0], i, 2));
    biases.push_back(part_of(half[1], i, 2));
  }
  std::ranges::copy(kernels, std::back_inserter(tensors));
  std::ranges::copy(biases, std::back_inserter(tensors));
  add_dense(feed_forward + "/wo", name + ".mlp.weights_out", vit.intermediate, vit.hidden, tensors);
}

/// The tensors of a file in which the names of an encoder's begin with `prefix`.
std::vector<ImageTensor> vit_tensors(const VitConfig& vit, const VitScopes& scopes,
                                     const std::string& prefix) {
  const std::string embeddings = prefix + "embeddings.",
                    projection = embeddings + "patch_embeddings.projection";
  std::vector<ImageTensor> tensors = {
      kernel_tensor(scopes.patches + "/kernel", projection + ".weight", {vit.patch.rows, vit.patch.cols},
                    vit.channels, vit.hidden),
      same_tensor(scopes.patches + "/bias", projection + ".bias", {vit.hidden}),
      same_tensor(scopes.class_token + "/class_token", embeddings + "cls_token", {1, 1, vit.hidden}),
      same_tensor(scopes.positions + "/positional_embedding", embeddings + "position_embeddings",
                  {1, vit.patches() + 1, vit.hidden})};
  if (vit.registers > 0)
    tensors.push_back(same_tensor(scopes.registers + "/register_tokens", embeddings + "register_tokens",
                                  {1, vit.registers, vit.hidden}));
  const bool is_dinov2 = vit.kind == VitKind::kDinov2;
  for (int64_t i = 0; i < vit.num_layers; ++i)
    (is_dinov2 ? add_dinov2_block : add_block)(fmt::format("{}/block_{:03}", scopes.transformer, i),
                                               fmt::format("{}encoder.layer.{}", prefix, i), vit, tensors);
  add_layer_norm(scopes.transformer, prefix + "layernorm", vit.hidden, tensors);
  if (vit.has_pooler) add_dense(scopes.pooler, prefix + "pooler.dense", vit.hidden, vit.hidden, tensors);
  if (!vit.without_head)
    add_dense(scopes.classifier, "classifier", is_dinov2 ? 2 * vit.hidden : vit.hidden, vit.labels, tensors);
  return tensors;
}

/// What the tensors say of the head.
void settle_vit_head(const HuggingFaceFiles& files, const std::string& prefix, const std::string& config_file,
                     VitConfig& vit, std::vector<std::string>& notes) {
  const StoredTensor* classes = files.find(kVitClassifier);
  vit.without_head = !classes;
  const bool has_pooler = vit.kind == VitKind::kVit && files.find(prefix + kVitPooler);
  vit.has_pooler = vit.without_head && has_pooler;
  if (classes) {
    vit.labels = label_rows(*classes, config_file);
    vit.label_names = settled_label_names(vit.label_names, vit.labels, kVitClassifier, config_file, notes);
  } else {
    vit.label_names.clear();
  }
  if (classes && has_pooler)
    notes.push_back(fmt::format("{}: the pooler, which no classifier reads, is left out", config_file));
}

/// The size of the images: what the data say, or where they do not that of a square.
ImageSize image_of(const VitConfig& vit, int64_t patches, const std::optional<ImageProcessor>& processor,
                   const std::string& from) {
  const auto side =
      static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(patches, 0)))));
  VitConfig sized = vit;
  sized.image = processor ? processor->size : ImageSize{side * vit.patch.rows, side * vit.patch.cols};
  if (sized.patches() == patches) return sized.image;
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: it has positions of {} patches, which are not those of an image of {} x {}",
                          from, patches, sized.image.rows, sized.image.cols),
              "`data.train` of type images, with the `size` of the images");
}

/// Sets what the weights say.
void add_vit_sizes(const ModelWeights& model, const VitScopes& scopes,
                   const std::optional<ImageProcessor>& processor, const std::string& from, VitConfig& vit) {
  vit.channels = size_in(model, scopes.patches + "/kernel", 0, from) / (vit.patch.rows * vit.patch.cols);
  const int64_t positions = size_in(model, scopes.positions + "/positional_embedding", 0, from);
  vit.image = image_of(vit, positions - 1, processor, from);
  vit.without_head = !has_weight(model, scopes.classifier + "/kernel");
  if (!vit.without_head) vit.labels = size_in(model, scopes.classifier + "/bias", 0, from);
}

/// The patches of an image. Throws Error (kCheckpoint) unless they fill it; `from` names the model.
ImageSize grid_of(const VitConfig& vit, const ImageSize& image, const std::string& from) {
  if (image.rows % vit.patch.rows == 0 && image.cols % vit.patch.cols == 0)
    return {image.rows / vit.patch.rows, image.cols / vit.patch.cols};
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}/{}: images become {} x {}, which cannot be cut into patches of {} x {}", from,
                          kImageProcessorFile, image.rows, image.cols, vit.patch.rows, vit.patch.cols),
              fmt::format("multiples of {} and {}", vit.patch.rows, vit.patch.cols));
}

/// Lets an import make the positions of images of size `image` from those of the file.
void resample_positions(const VitConfig& vit, const ImageSize& image, const std::string& variable,
                        const std::string& from, std::vector<ImageTensor>& tensors,
                        std::vector<std::string>& notes) {
  const ImageSize theirs = grid_of(vit, vit.image, from), ours = grid_of(vit, image, from);
  if (theirs == ours) return;
  const bool antialias = vit.registers > 0;  // as in transformers
  std::ranges::find(tensors, variable, &ImageTensor::variable)->change =
      [theirs, ours, antialias](const std::vector<float>& vectors) {
        return resampled_positions(vectors, 1, theirs, ours, antialias);
      };
  notes.push_back(fmt::format(
      "positions of {} x {} patches are interpolated for the {} x {} patches of images of {} x {}",
      theirs.rows, theirs.cols, ours.rows, ours.cols, image.rows, image.cols));
}

HuggingFaceImport import_kind(const std::string& from, const ImportTarget& target, VitKind kind) {
  const std::string config_file = from + "/config.json";
  const std::string text = read_text_file(config_file);
  VitConfig vit =
      kind == VitKind::kVit ? parse_vit_config(text, config_file) : parse_dinov2_config(text, config_file);
  const HuggingFaceFiles files(from);
  HuggingFaceImport import;
  const std::string of_classifier = prefix_of(vit),
                    prefix = files.find(of_classifier + "embeddings.cls_token") ? of_classifier : "";
  settle_vit_head(files, prefix, config_file, vit, import.notes);
  const ImageProcessor processor =
      read_image_processor(from, vit.channels, import.notes)
          .value_or(ImageProcessor{vit.image, ResizeRule::kStretch, vit.image, {}, {}});
  grid_of(vit, processor.size, from);
  import.model.config = vit_yaml(vit, processor, {.vocabulary = {}, .target = target, .source = from});
  import.model.preparation = preparation_of(vit.label_names);
  const VitScopes scopes = vit_of(ConfigText(import.model.config, from).load().model, kind).scopes;
  std::vector<ImageTensor> tensors = vit_tensors(vit, scopes, prefix);
  resample_positions(vit, processor.size, scopes.positions + "/positional_embedding", from, tensors,
                     import.notes);
  const std::vector<std::string> missing = import_tensors(
      files, tensors,
      [&](const std::string& name) {
        return name == prefix + kMaskToken || (kind == VitKind::kVit && name.starts_with(prefix + "pooler."));
      },
      from, title_of(kind), import);
  note_new_head(missing, from, import.notes);
  return import;
}

std::vector<std::string> export_kind(const ModelWeights& model, const std::string& from,
                                     const std::string& directory, VitKind kind) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  auto [vit, scopes] = vit_of(config.model, kind);
  const std::optional<ImageProcessor> processor = image_processor_of(config, notes);
  add_vit_sizes(model, scopes, processor, from, vit);
  const Mark layers = config.mark("model.layers");
  if (vit.has_pooler && !vit.without_head)
    throw Error(ErrorKind::kConfig, layers, "a ViTForImageClassification has no pooler before its classifier",
                "a run with `take: {along: length}` in the place of `pooler`");
  vit.label_names = prepared_classes(model.preparation);
  const std::string text = kind == VitKind::kVit ? vit_json(vit) : dinov2_json(vit, layers);
  const std::string prefix = vit.without_head ? "" : prefix_of(vit);
  std::vector<WrittenTensor> others;
  if (kind == VitKind::kDinov2)
    others.push_back(
        {prefix + kMaskToken, {1, vit.hidden}, std::vector<float>(static_cast<size_t>(vit.hidden))});
  export_tensors(model, vit_tensors(vit, scopes, prefix), from, title_of(kind), directory, {}, others);
  write_text_file(directory + "/config.json", text);
  if (processor)
    write_text_file(fmt::format("{}/{}", directory, kImageProcessorFile),
                    image_processor_json(*processor, vit.channels));
  return notes;
}

}  // namespace

HuggingFaceImport import_vit(const std::string& from, const ImportTarget& target) {
  return import_kind(from, target, VitKind::kVit);
}

HuggingFaceImport import_dinov2(const std::string& from, const ImportTarget& target) {
  return import_kind(from, target, VitKind::kDinov2);
}

std::vector<std::string> export_vit(const ModelWeights& model, const std::string& from,
                                    const std::string& directory) {
  return export_kind(model, from, directory, VitKind::kVit);
}

std::vector<std::string> export_dinov2(const ModelWeights& model, const std::string& from,
                                       const std::string& directory) {
  return export_kind(model, from, directory, VitKind::kDinov2);
}

}  // namespace mtf
