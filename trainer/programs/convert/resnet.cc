#include "trainer/programs/convert/resnet.h"

#include <fmt/format.h>

#include "data/class_names.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/image_tensors.h"
#include "trainer/programs/convert/resnet_config.h"

namespace mtf {
namespace {

constexpr std::string_view kResNet = "ResNet";
constexpr const char *kResNetPrefix = "resnet.", *kResNetClassifier = "classifier.1";
/// A counter that only PyTorch's batch norm without `momentum` reads.
constexpr std::string_view kBatchCounter = ".num_batches_tracked";

/// Adds the tensors of a convolution and its batch norm, with what is always there and what training moves.
void add_convolution(const ResNetConvolution& convolution, const std::string& name, int64_t channels,
                     std::vector<ImageTensor>& tensors) {
  tensors.push_back(kernel_tensor(convolution.convolution + "/kernel", name + ".convolution.weight",
                                  {convolution.kernel, convolution.kernel}, channels, convolution.filters));
  for (const auto& [ours, theirs] : {std::pair{"scale", "weight"},
                                     {"bias", "bias"},
                                     {"mean", "running_mean"},
                                     {"variance", "running_var"}})
    tensors.push_back(same_tensor(fmt::format("{}/{}", convolution.norm, ours),
                                  fmt::format("{}.normalization.{}", name, theirs), {convolution.filters}));
}

/// The tensors of a file in which the names of an encoder's begin with `prefix`.
std::vector<ImageTensor> resnet_tensors(const ResNetConfig& resnet, const ResNetLayers& layers,
                                        const std::string& prefix) {
  std::vector<ImageTensor> tensors;
  add_convolution(layers.stem, prefix + "embedder.embedder", resnet.channels, tensors);
  int64_t channels = layers.stem.filters;
  for (size_t s = 0; s < layers.stages.size(); ++s) {
    for (size_t b = 0; b < layers.stages[s].size(); ++b) {
      const ResNetBlock& block = layers.stages[s][b];
      const std::string name = fmt::format("{}encoder.stages.{}.layers.{}", prefix, s, b);
      for (const ResNetConvolution& shortcut : block.shortcut)
        add_convolution(shortcut, name + ".shortcut", channels, tensors);
      for (size_t i = 0; i < block.branch.size(); ++i) {
        add_convolution(block.branch[i], fmt::format("{}.layer.{}", name, i), channels, tensors);
        channels = block.branch[i].filters;
      }
    }
  }
  if (resnet.without_head) return tensors;
  const std::string classifier = kResNetClassifier;
  tensors.push_back(
      matrix_tensor(layers.classifier + "/kernel", classifier + ".weight", channels, resnet.labels));
  tensors.push_back(same_tensor(layers.classifier + "/bias", classifier + ".bias", {resnet.labels}));
  return tensors;
}

/// What the tensors say of the head.
void settle_resnet_head(const HuggingFaceFiles& files, const std::string& config_file, ResNetConfig& resnet,
                        std::vector<std::string>& notes) {
  const std::string kernel = std::string(kResNetClassifier) + ".weight";
  const StoredTensor* classes = files.find(kernel);
  resnet.without_head = !classes;
  if (!classes) {
    resnet.label_names.clear();
    return;
  }
  resnet.labels = label_rows(*classes, config_file);
  resnet.label_names = settled_label_names(resnet.label_names, resnet.labels, kernel, config_file, notes);
}

/// The counters of all batch norms, which the loader of `transformers` misses otherwise.
std::vector<std::string> counters_of(const std::vector<ImageTensor>& tensors) {
  constexpr std::string_view variance = ".running_var";
  std::vector<std::string> counters;
  for (const ImageTensor& tensor : tensors) {
    if (tensor.name.ends_with(variance))
      counters.push_back(tensor.name.substr(0, tensor.name.size() - variance.size()) +
                         std::string(kBatchCounter));
  }
  return counters;
}

/// The images of ImageNet's networks.
constexpr ImageSize kUsualImage = {224, 224};

}  // namespace

HuggingFaceImport import_resnet(const std::string& from, const ImportTarget& target) {
  const std::string config_file = from + "/config.json";
  ResNetConfig resnet = parse_resnet_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  HuggingFaceImport import;
  settle_resnet_head(files, config_file, resnet, import.notes);
  const ImageProcessor processor =
      read_image_processor(from, resnet.channels, import.notes)
          .value_or(ImageProcessor{kUsualImage, ResizeRule::kCrop, kUsualImage, {}, {}});
  import.model.config = resnet_yaml(resnet, processor, {.vocabulary = {}, .target = target, .source = from});
  import.model.preparation = preparation_of(resnet.label_names);
  const ResNetLayers layers = resnet_of(ConfigText(import.model.config, from).load().model);
  const std::string prefix =
      files.find(std::string(kResNetPrefix) + "embedder.embedder.convolution.weight") ? kResNetPrefix : "";
  const std::vector<std::string> missing = import_tensors(
      files, resnet_tensors(resnet, layers, prefix),
      [](const std::string& name) { return name.ends_with(kBatchCounter); }, from, kResNet, import);
  note_new_head(missing, from, import.notes);
  return import;
}

std::vector<std::string> export_resnet(const ModelWeights& model, const std::string& from,
                                       const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  const ResNetLayers layers = resnet_of(config.model);
  ResNetConfig resnet = layers.resnet;
  resnet.channels = size_in(model, layers.stem.convolution + "/kernel", 2, from);
  resnet.without_head = !has_weight(model, layers.classifier + "/kernel");
  if (!resnet.without_head) resnet.labels = size_in(model, layers.classifier + "/bias", 0, from);
  resnet.label_names = prepared_classes(model.preparation);
  const std::vector<ImageTensor> tensors =
      resnet_tensors(resnet, layers, resnet.without_head ? "" : kResNetPrefix);
  export_tensors(model, tensors, from, kResNet, directory, counters_of(tensors));
  write_text_file(directory + "/config.json", resnet_json(resnet));
  if (const std::optional<ImageProcessor> processor = image_processor_of(config, notes))
    write_text_file(fmt::format("{}/{}", directory, kImageProcessorFile),
                    image_processor_json(*processor, resnet.channels));
  return notes;
}

}  // namespace mtf
