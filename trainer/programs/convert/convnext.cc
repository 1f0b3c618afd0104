#include "trainer/programs/convert/convnext.h"

#include <fmt/format.h>

#include "data/class_names.h"
#include "trainer/programs/convert/config_text.h"
#include "trainer/programs/convert/convnext_config.h"
#include "trainer/programs/convert/files.h"
#include "trainer/programs/convert/image_network.h"
#include "trainer/programs/convert/image_tensors.h"

namespace mtf {
namespace {

constexpr std::string_view kConvNext = "ConvNeXt";
constexpr const char *kConvNextPrefix = "convnext.", *kConvNextClassifier = "classifier";

/// The tensors of a file in which the names of an encoder's begin with `prefix`.
class ConvNextTensors {
 public:
  ConvNextTensors(const ConvNextConfig& network, const ConvNextLayers& layers, std::string prefix)
      : prefix_(std::move(prefix)) {
    int64_t before = network.stages[0].filters;
    add_convolution(layers.stem.convolution, "embeddings.patch_embeddings", network.patch, network.channels,
                    before);
    add_norm(layers.stem.norm, "embeddings.layernorm", before);
    for (size_t s = 0; s < network.stages.size(); ++s) {
      const std::string stage = fmt::format("encoder.stages.{}", s);
      const int64_t filters = network.stages[s].filters;
      if (s > 0) {
        add_norm(layers.reductions[s - 1].norm, stage + ".downsampling_layer.0", before);
        add_convolution(layers.reductions[s - 1].convolution, stage + ".downsampling_layer.1", 2, before,
                        filters);
      }
      for (size_t b = 0; b < layers.stages[s].size(); ++b)
        add_block(layers.stages[s][b], fmt::format("{}.layers.{}", stage, b), filters);
      before = filters;
    }
    add_norm(layers.norm, "layernorm", before);
    prefix_.clear();
    if (!network.without_head) add_dense(layers.classifier, kConvNextClassifier, before, network.labels);
  }

  const std::vector<ImageTensor>& all() const { return tensors_; }

 private:
  void add_bias(const std::string& scope, const std::string& name, int64_t size) {
    tensors_.push_back(same_tensor(scope + "/bias", prefix_ + name + ".bias", {size}));
  }
  void add_convolution(const std::string& scope, const std::string& name, int64_t window, int64_t inputs,
                       int64_t outputs) {
    tensors_.push_back(
        kernel_tensor(scope + "/kernel", prefix_ + name + ".weight", {window, window}, inputs, outputs));
    add_bias(scope, name, outputs);
  }
  void add_dense(const std::string& scope, const std::string& name, int64_t inputs, int64_t outputs) {
    tensors_.push_back(matrix_tensor(scope + "/kernel", prefix_ + name + ".weight", inputs, outputs));
    add_bias(scope, name, outputs);
  }
  void add_norm(const std::string& scope, const std::string& name, int64_t size) {
    tensors_.push_back(same_tensor(scope + "/layer_norm_scale", prefix_ + name + ".weight", {size}));
    tensors_.push_back(same_tensor(scope + "/layer_norm_bias", prefix_ + name + ".bias", {size}));
  }
  void add_block(const ConvNextBlock& block, const std::string& name, int64_t filters) {
    constexpr int64_t kWindow = 7;
    const int64_t wide = ConvNextConfig::widened(filters);
    add_convolution(block.depthwise, name + ".dwconv", kWindow, 1, filters);
    add_norm(block.norm, name + ".layernorm", filters);
    add_dense(block.wi, name + ".pwconv1", filters, wide);
    add_dense(block.wo, name + ".pwconv2", wide, filters);
    if (!block.scale.empty())
      tensors_.push_back(
          same_tensor(block.scale + "/layer_scale", prefix_ + name + ".layer_scale_parameter", {filters}));
  }

  std::string prefix_;
  std::vector<ImageTensor> tensors_;
};

/// What the tensors say of the head.
void settle_convnext_head(const HuggingFaceFiles& files, const std::string& config_file,
                          ConvNextConfig& network, std::vector<std::string>& notes) {
  const std::string kernel = std::string(kConvNextClassifier) + ".weight";
  const StoredTensor* classes = files.find(kernel);
  network.without_head = !classes;
  if (!classes) {
    network.label_names.clear();
    return;
  }
  network.labels = label_rows(*classes, config_file);
  network.label_names = settled_label_names(network.label_names, network.labels, kernel, config_file, notes);
}

}  // namespace

HuggingFaceImport import_convnext(const std::string& from, const ImportTarget& target) {
  constexpr ImageSize usual = {224, 224};
  const std::string config_file = from + "/config.json";
  ConvNextConfig network = parse_convnext_config(read_text_file(config_file), config_file);
  const HuggingFaceFiles files(from);
  HuggingFaceImport import;
  settle_convnext_head(files, config_file, network, import.notes);
  const ImageProcessor processor = read_image_processor(from, network.channels, import.notes)
                                       .value_or(ImageProcessor{usual, ResizeRule::kCrop, usual, {}, {}});
  import.model.config =
      convnext_yaml(network, processor, {.vocabulary = {}, .target = target, .source = from});
  import.model.preparation = preparation_of(network.label_names);
  const ConvNextLayers layers = convnext_of(ConfigText(import.model.config, from).load().model);
  const std::string stem = "embeddings.patch_embeddings.weight";
  const ConvNextTensors tensors(network, layers, files.find(stem) ? "" : kConvNextPrefix);
  const std::vector<std::string> missing = import_tensors(
      files, tensors.all(), [](const std::string&) { return false; }, from, kConvNext, import);
  note_new_head(missing, from, import.notes);
  return import;
}

std::vector<std::string> export_convnext(const ModelWeights& model, const std::string& from,
                                         const std::string& directory) {
  std::vector<std::string> notes;
  const Config config = ConfigText(model.config, from).load();
  const ConvNextLayers layers = convnext_of(config.model);
  ConvNextConfig network = layers.network;
  network.channels = size_in(model, layers.stem.convolution + "/kernel", 2, from);
  network.without_head = !has_weight(model, layers.classifier + "/kernel");
  if (!network.without_head) network.labels = size_in(model, layers.classifier + "/bias", 0, from);
  network.label_names = prepared_classes(model.preparation);
  if (!layers.drops_in_equal_steps)
    notes.push_back(
        fmt::format("`drop_path_rate` is {}, that of the last block; those before it have others than in "
                    "equal steps from 0",
                    network.drop));
  const ConvNextTensors tensors(network, layers, network.without_head ? "" : kConvNextPrefix);
  export_tensors(model, tensors.all(), from, kConvNext, directory);
  write_text_file(directory + "/config.json", convnext_json(network));
  if (const std::optional<ImageProcessor> processor = image_processor_of(config, notes))
    write_text_file(fmt::format("{}/{}", directory, kImageProcessorFile),
                    image_processor_json(*processor, network.channels));
  return notes;
}

}  // namespace mtf
