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
constexpr const char* kStemKernel = "embedder.embedder.convolution.weight";
/// A counter that only PyTorch's batch norm without `momentum` reads.
constexpr std::string_view kBatchCounter = ".num_batches_tracked";

/// The names of the tensors of a convolution and of its batch norm, without what follows the last point.
struct ConvolutionNames {
  std::string convolution, norm;
};

/// The names of a file's tensors: those of a classifier of `transformers`, of an encoder alone, or of torchvision.
class ResNetNames {
 public:
  enum class Style { kClassifier, kEncoder, kTorchvision };
  explicit ResNetNames(Style style) : style_(style) {}

  ConvolutionNames stem() const {
    if (style_ == Style::kTorchvision) return {"conv1", "bn1"};
    return named(prefix() + "embedder.embedder");
  }
  /// The convolution `i` of a block's branch.
  ConvolutionNames branch(size_t stage, size_t block, size_t i) const {
    if (style_ == Style::kTorchvision)
      return {fmt::format("layer{}.{}.conv{}", stage + 1, block, i + 1),
              fmt::format("layer{}.{}.bn{}", stage + 1, block, i + 1)};
    return named(fmt::format("{}encoder.stages.{}.layers.{}.layer.{}", prefix(), stage, block, i));
  }
  ConvolutionNames shortcut(size_t stage, size_t block) const {
    if (style_ == Style::kTorchvision)
      return {fmt::format("layer{}.{}.downsample.0", stage + 1, block),
              fmt::format("layer{}.{}.downsample.1", stage + 1, block)};
    return named(fmt::format("{}encoder.stages.{}.layers.{}.shortcut", prefix(), stage, block));
  }
  std::string classifier() const { return style_ == Style::kTorchvision ? "fc" : "classifier.1"; }

 private:
  std::string prefix() const { return style_ == Style::kClassifier ? "resnet." : ""; }
  static ConvolutionNames named(const std::string& name) {
    return {name + ".convolution", name + ".normalization"};
  }

  Style style_;
};

ResNetNames names_in(const HuggingFaceFiles& files) {
  if (files.find("conv1.weight")) return ResNetNames(ResNetNames::Style::kTorchvision);
  return ResNetNames(files.find(kStemKernel) ? ResNetNames::Style::kEncoder
                                             : ResNetNames::Style::kClassifier);
}

/// Adds the tensors of a convolution and its batch norm, with the statistics that training moves.
void add_convolution(const ResNetConvolution& convolution, const ConvolutionNames& names, int64_t channels,
                     std::vector<ImageTensor>& tensors) {
  tensors.push_back(kernel_tensor(convolution.convolution + "/kernel", names.convolution + ".weight",
                                  {convolution.kernel, convolution.kernel}, channels, convolution.filters));
  for (const auto& [ours, theirs] : {std::pair{"scale", "weight"},
                                     {"bias", "bias"},
                                     {"mean", "running_mean"},
                                     {"variance", "running_var"}})
    tensors.push_back(same_tensor(fmt::format("{}/{}", convolution.norm, ours),
                                  fmt::format("{}.{}", names.norm, theirs), {convolution.filters}));
}

std::vector<ImageTensor> resnet_tensors(const ResNetConfig& resnet, const ResNetLayers& layers,
                                        const ResNetNames& names) {
  std::vector<ImageTensor> tensors;
  add_convolution(layers.stem, names.stem(), resnet.channels, tensors);
  int64_t channels = layers.stem.filters;
  for (size_t s = 0; s < layers.stages.size(); ++s) {
    for (size_t b = 0; b < layers.stages[s].size(); ++b) {
      const ResNetBlock& block = layers.stages[s][b];
      for (const ResNetConvolution& shortcut : block.shortcut)
        add_convolution(shortcut, names.shortcut(s, b), channels, tensors);
      for (size_t i = 0; i < block.branch.size(); ++i) {
        add_convolution(block.branch[i], names.branch(s, b, i), channels, tensors);
        channels = block.branch[i].filters;
      }
    }
  }
  if (resnet.without_head) return tensors;
  tensors.push_back(
      matrix_tensor(layers.classifier + "/kernel", names.classifier() + ".weight", channels, resnet.labels));
  tensors.push_back(same_tensor(layers.classifier + "/bias", names.classifier() + ".bias", {resnet.labels}));
  return tensors;
}

/// What the tensors say of the head.
void settle_resnet_head(const HuggingFaceFiles& files, const std::string& kernel,
                        const std::string& config_file, ResNetConfig& resnet,
                        std::vector<std::string>& notes) {
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
  const ResNetNames names = names_in(files);
  settle_resnet_head(files, names.classifier() + ".weight", config_file, resnet, import.notes);
  const ImageProcessor processor =
      read_image_processor(from, resnet.channels, import.notes)
          .value_or(ImageProcessor{kUsualImage, ResizeRule::kCrop, kUsualImage, {}, {}});
  import.model.config = resnet_yaml(resnet, processor, {.vocabulary = {}, .target = target, .source = from});
  import.model.preparation = preparation_of(resnet.label_names);
  const ResNetLayers layers = resnet_of(ConfigText(import.model.config, from).load().model);
  const std::vector<std::string> missing = import_tensors(
      files, resnet_tensors(resnet, layers, names),
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
  const ResNetNames names(resnet.without_head ? ResNetNames::Style::kEncoder
                                              : ResNetNames::Style::kClassifier);
  const std::vector<ImageTensor> tensors = resnet_tensors(resnet, layers, names);
  export_tensors(model, tensors, from, kResNet, directory, counters_of(tensors));
  write_text_file(directory + "/config.json", resnet_json(resnet));
  if (const std::optional<ImageProcessor> processor = image_processor_of(config, notes))
    write_text_file(fmt::format("{}/{}", directory, kImageProcessorFile),
                    image_processor_json(*processor, resnet.channels));
  return notes;
}

}  // namespace mtf
