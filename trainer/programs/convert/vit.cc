#include "trainer/programs/convert/vit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/class_names.h"
#include "engine/base/error.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/image_tensors.h"
#include "trainer/programs/convert/vit_config.h"

namespace mtf {
namespace {

constexpr std::string_view kVit = "ViT";
constexpr const char *kVitPrefix = "vit.", *kVitClassifier = "classifier.weight",
                     *kVitPooler = "pooler.dense.weight";
/// The vector of hidden patches in pretraining.
constexpr std::string_view kMaskToken = "embeddings.mask_token";

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

void add_block(const std::string& scope, const std::string& name, const VitConfig& vit,
               std::vector<ImageTensor>& tensors) {
  constexpr std::array<std::pair<const char*, const char*>, 4> projections = {
      {{"q", "attention.query"}, {"k", "attention.key"}, {"v", "attention.value"}, {"o", "output.dense"}}};
  add_layer_norm(scope + "/layer_000", name + ".layernorm_before", vit.hidden, tensors);
  for (const auto& [ours, theirs] : projections) {
    const std::string variable = fmt::format("{}/layer_000/SelfAttention/{}", scope, ours),
                      tensor = fmt::format("{}.attention.{}", name, theirs);
    tensors.push_back(matrix_tensor(variable, tensor + ".weight", vit.hidden, vit.hidden));
    tensors.push_back(same_tensor(variable + "_bias", tensor + ".bias", {vit.hidden}));
  }
  add_layer_norm(scope + "/layer_001", name + ".layernorm_after", vit.hidden, tensors);
  add_dense(scope + "/layer_001/DenseReluDense/wi", name + ".intermediate.dense", vit.hidden,
            vit.intermediate, tensors);
  add_dense(scope + "/layer_001/DenseReluDense/wo", name + ".output.dense", vit.intermediate, vit.hidden,
            tensors);
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
  for (int64_t i = 0; i < vit.num_layers; ++i)
    add_block(fmt::format("{}/block_{:03}", scopes.transformer, i),
              fmt::format("{}encoder.layer.{}", prefix, i), vit, tensors);
  add_layer_norm(scopes.transformer, prefix + "layernorm", vit.hidden, tensors);
  if (vit.has_pooler) add_dense(scopes.pooler, prefix + "pooler.dense", vit.hidden, vit.hidden, tensors);
  if (!vit.without_head) add_dense(scopes.classifier, "classifier", vit.hidden, vit.labels, tensors);
  return tensors;
}

/// What the tensors say of the head.
void settle_vit_head(const HuggingFaceFiles& files, const std::string& prefix, const std::string& config_file,
                     VitConfig& vit, std::vector<std::string>& notes) {
  const StoredTensor* classes = files.find(kVitClassifier);
  vit.without_head = !classes;
  vit.has_pooler = vit.without_head && files.find(prefix + kVitPooler);
  if (classes) {
    vit.labels = label_rows(*classes, config_file);
    vit.label_names = settled_label_names(vit.label_names, vit.labels, kVitClassifier, config_file, notes);
  } else {
    vit.label_names.clear();
  }
  if (classes && files.find(prefix + kVitPooler))
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

}  // namespace

HuggingFaceImport import_vit(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  VitConfig vit = parse_vit_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  HuggingFaceImport import;
  const std::string prefix = files.find(std::string(kVitPrefix) + "embeddings.cls_token") ? kVitPrefix : "";
  settle_vit_head(files, prefix, config_file, vit, import.notes);
  const ImageProcessor processor =
      read_image_processor(from, vit.channels, import.notes)
          .value_or(ImageProcessor{vit.image, ResizeRule::kStretch, vit.image, {}, {}});
  if (processor.size != vit.image)
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{}/{}: images become {} x {}, and `image_size` of config.json is {} x {}", from,
                            kImageProcessorFile, processor.size.rows, processor.size.cols, vit.image.rows,
                            vit.image.cols),
                "one size: positions are not interpolated here");
  import.model.config = vit_yaml(vit, processor, {.vocabulary = {}, .target = target, .source = from});
  import.model.preparation = preparation_of(vit.label_names);
  const VitScopes scopes = vit_of(ConfigText(import.model.config, from).load().model).scopes;
  const std::vector<std::string> missing = import_tensors(
      files, vit_tensors(vit, scopes, prefix),
      [&](const std::string& name) {
        return name == prefix + std::string(kMaskToken) || name.starts_with(prefix + "pooler.");
      },
      from, kVit, import);
  note_new_head(missing, from, import.notes);
  return import;
}

std::vector<std::string> export_vit(const ModelWeights& model, const std::string& from,
                                    const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  auto [vit, scopes] = vit_of(config.model);
  const std::optional<ImageProcessor> processor = image_processor_of(config, notes);
  add_vit_sizes(model, scopes, processor, from, vit);
  if (vit.has_pooler && !vit.without_head)
    throw Error(ErrorKind::kConfig, config.mark("model.layers"),
                "a ViTForImageClassification has no pooler before its classifier",
                "a run with `take: {along: length}` in the place of `pooler`");
  vit.label_names = prepared_classes(model.preparation);
  export_tensors(model, vit_tensors(vit, scopes, vit.without_head ? "" : kVitPrefix), from, kVit, directory);
  write_text_file(directory + "/config.json", vit_json(vit));
  if (processor)
    write_text_file(fmt::format("{}/{}", directory, kImageProcessorFile),
                    image_processor_json(*processor, vit.channels));
  return notes;
}

}  // namespace mtf
