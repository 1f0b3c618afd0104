#include "trainer/programs/convert/image_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/config/load.h"
#include "layers/layer_entry.h"
#include "trainer/programs/convert/files.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using config::Node;

constexpr double kLargestByte = 255;
/// The value of `resample` for bilinear interpolation, the only one here.
constexpr int64_t kBilinear = 2;

/// What the classes of image processors do by themselves.
struct ProcessorKind {
  std::string_view name;
  bool crops_middle = false;
  bool scales_shortest_edge = false;  ///< a number as `size` is that of the shorter edge
  bool has_crop_share = false;        ///< `crop_pct`
  int64_t resample = kBilinear;
};
constexpr int64_t kBicubic = 3;
constexpr std::array<ProcessorKind, 4> kProcessorKinds = {{{"ViT"},
                                                           {"DeiT", true, false, false, kBicubic},
                                                           {"Bit", true, true, false, kBicubic},
                                                           {"ConvNext", false, true, true, kBicubic}}};

const ProcessorKind& kind_of(const HuggingFaceJson& json) {
  const char* const key =
      json.has("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
  const std::string name = json.text(key, "ViTImageProcessor");
  for (const ProcessorKind& kind : kProcessorKinds) {
    for (const char* suffix :
         {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"}) {
      if (name == fmt::format("{}{}", kind.name, suffix)) return kind;
    }
  }
  json.fail(fmt::format("`{}` is {}, which cannot be converted", key, name),
            "ViTImageProcessor, DeiTImageProcessor, BitImageProcessor or ConvNextImageProcessor");
}

/// Reads {height: .., width: ..} or a number for both.
ImageSize parse_edges(const HuggingFaceJson& json, const char* key) {
  if (!json.has(key)) json.fail(fmt::format("`{}` is missing", key));
  if (!json.at(key).is_object()) return parse_image_size(json, key, {});
  const HuggingFaceJson edges = json.object(key);
  if (!edges.has("height") || !edges.has("width"))
    json.fail(fmt::format("`{}` is {}", key, json.at(key).dump()), "a `height` and a `width`");
  return {edges.size("height", 0), edges.size("width", 0)};
}

/// The length that the shorter edge of an image gets; nothing where both edges get one.
std::optional<int64_t> shortest_edge(const HuggingFaceJson& json, const ProcessorKind& kind) {
  if (!json.has("size")) json.fail("`size` is missing");
  if (!json.at("size").is_object())
    return kind.scales_shortest_edge ? std::optional(json.size("size", 0)) : std::nullopt;
  const HuggingFaceJson edges = json.object("size");
  if (!edges.has("shortest_edge")) return std::nullopt;
  if (edges.has("longest_edge")) json.fail("`size` has a `longest_edge`, which cannot be converted");
  return edges.size("shortest_edge", 0);
}

/// The parts of `json` that say which pixels the network sees.
void parse_sizes(const HuggingFaceJson& json, const ProcessorKind& kind, ImageProcessor& processor) {
  json.require("do_resize", true, "all images get one size");
  json.require("do_pad", false, "nothing is added to images");
  const std::optional<int64_t> edge = shortest_edge(json, kind);
  bool crops = json.flag("do_center_crop", kind.crops_middle);
  processor.rule = edge ? ResizeRule::kCrop : ResizeRule::kStretch;
  processor.scaled = edge ? ImageSize{*edge, *edge} : parse_edges(json, "size");
  if (kind.has_crop_share && edge) {
    constexpr int64_t kNeverCropped = 384;
    const double share = json.positive("crop_pct", 224.0 / 256);
    processor.size = processor.scaled;
    if (*edge >= kNeverCropped) processor.rule = ResizeRule::kStretch;
    constexpr double kSmallestShare = 0.01;
    if (share < kSmallestShare || share > 1)
      json.fail(fmt::format("`crop_pct` is {}, which is no part of an image", share),
                fmt::format("a number from {} to 1", kSmallestShare));
    const int64_t whole =
        *edge >= kNeverCropped ? *edge : static_cast<int64_t>(static_cast<double>(*edge) / share);
    processor.scaled = {whole, whole};
    json.require("do_center_crop", false, "`crop_pct` says which part is cut out");
    return;
  }
  if (edge && !crops)
    json.fail("`size` is that of the `shortest_edge`, so that images have many sizes",
              "`do_center_crop` with a `crop_size`, or a `height` and a `width`");
  processor.size = crops ? parse_edges(json, "crop_size") : processor.scaled;
  if (processor.size.rows > processor.scaled.rows || processor.size.cols > processor.scaled.cols)
    json.fail("`crop_size` is larger than `size`, so that images get an edge of zeros", "at most `size`");
}

std::vector<double> numbers_of(const HuggingFaceJson& json, const char* key, int64_t channels) {
  if (!json.has(key)) json.fail(fmt::format("`{}` is missing", key), "a number for each channel");
  const nlohmann::json given = json.at(key).is_array() ? json.at(key) : nlohmann::json::array({json.at(key)});
  std::vector<double> numbers;
  for (const nlohmann::json& number : given) {
    if (!number.is_number()) json.fail(fmt::format("`{}` is {}, no numbers", key, given.dump()));
    numbers.push_back(number.get<double>());
  }
  if (std::ssize(numbers) != channels && numbers.size() != 1)
    json.fail(fmt::format("`{}` has {} numbers, and images have {} channels", key, numbers.size(), channels));
  return numbers;
}

/// Reads what the network is given for a pixel: (byte * rescale_factor - image_mean) / image_std.
void parse_normalization(const HuggingFaceJson& json, int64_t channels, ImageProcessor& processor) {
  const double factor = json.flag("do_rescale", true) ? json.positive("rescale_factor", 1 / kLargestByte) : 1;
  const bool is_usual = std::abs(factor * kLargestByte - 1) < 1e-12;
  const bool normalizes = json.flag("do_normalize", true);
  if (!normalizes && is_usual) return;
  processor.mean = normalizes ? numbers_of(json, "image_mean", channels) : std::vector<double>{0};
  processor.deviation = normalizes ? numbers_of(json, "image_std", channels) : std::vector<double>{1};
  for (const double deviation : processor.deviation) {
    if (!(deviation > 0)) json.fail(fmt::format("`image_std` has {}", deviation), "numbers above 0");
  }
  if (is_usual) return;
  for (std::vector<double>* numbers : {&processor.mean, &processor.deviation}) {
    for (double& number : *numbers) number /= factor * kLargestByte;
  }
}

/// The keys of `data.train` that say which pixels the network sees.
struct ConvertedImages {
  std::vector<int64_t> size;
  ResizeRule resize = ResizeRule::kCrop;
};
void describe(config::Visitor& visit, ConvertedImages& options) {
  visit("size", options.size, "");
  visit("resize", options.resize, "");
}

struct ConvertedNormalize {
  std::vector<double> mean = {0}, deviation = {1};
};
void describe(config::Visitor& visit, ConvertedNormalize& options) {
  visit("mean", options.mean, "");
  visit("deviation", options.deviation, "");
}

struct ConvertedCrop {
  static constexpr std::string_view shorthand = "size";
  std::vector<int64_t> size;
};
void describe(config::Visitor& visit, ConvertedCrop& options) { visit("size", options.size, ""); }

ImageSize size_of(const std::vector<int64_t>& size) { return {size.front(), size.back()}; }

/// The values of some keys of a section that the configuration has checked.
template <class Options>
Options parse_checked(const Node& section, const std::vector<const char*>& keys) {
  Node own = section.is_map() ? Node::map({}, section.mark()) : section;
  for (const char* key : keys) {
    if (const config::Entry* entry = section.entry(key)) own = own.with(*entry);
  }
  Diagnostics diagnostics;
  auto options = config::parse<Options>(own, diagnostics, "data");
  diagnostics.throw_if_errors();
  return options;
}

/// Adds the augmentations of evaluation; false if preprocessor_config.json cannot say what they do.
bool add_augmentations(const Node& list, ImageProcessor& processor) {
  Diagnostics diagnostics;
  for (const Node& element : list.is_list() ? list.elements() : std::vector<Node>{list}) {
    const LayerEntry entry = layer_entry(element, diagnostics);
    if (entry.name == "normalize") {
      if (!processor.mean.empty()) return false;
      const auto normalize = parse_checked<ConvertedNormalize>(entry.options, {"mean", "deviation"});
      processor.mean = normalize.mean;
      processor.deviation = normalize.deviation;
    } else if (entry.name == "center_crop") {
      processor.size = size_of(parse_checked<ConvertedCrop>(entry.options, {"size"}).size);
    } else if (entry.name == "resize") {
      return false;
    }
  }
  return true;
}

/// preprocessor_config.json cuts squares out of images that keep their shape, and then a part of the square.
bool can_be_written(const ImageProcessor& processor) {
  return processor.rule == ResizeRule::kStretch ||
         (processor.rule == ResizeRule::kCrop && processor.scaled.rows == processor.scaled.cols);
}

std::string yaml_size(const ImageSize& size) {
  return size.rows == size.cols ? fmt::to_string(size.rows) : fmt::format("[{}, {}]", size.rows, size.cols);
}

std::vector<double> for_channels(const std::vector<double>& numbers, int64_t channels) {
  return numbers.size() == 1 ? std::vector<double>(static_cast<size_t>(channels), numbers[0]) : numbers;
}

nlohmann::ordered_json edges_json(const ImageSize& size) {
  return {{"height", size.rows}, {"width", size.cols}};
}

}  // namespace

ImageSize parse_image_size(const HuggingFaceJson& json, const char* key, const ImageSize& otherwise) {
  if (!json.has(key)) return otherwise;
  const nlohmann::json& given = json.at(key);
  if (!given.is_array()) return {json.size(key, 0), json.size(key, 0)};
  const auto is_size = [](const nlohmann::json& number) { return number.is_number_unsigned() && number > 0; };
  if (given.size() != 2 || !std::ranges::all_of(given, is_size))
    json.fail(fmt::format("`{}` is {}, no size", key, given.dump()),
              "[rows, columns], or one number for both");
  return {given[0].get<int64_t>(), given[1].get<int64_t>()};
}

nlohmann::ordered_json image_size_json(const ImageSize& size) {
  if (size.rows == size.cols) return size.rows;
  return nlohmann::ordered_json::array({size.rows, size.cols});
}

std::optional<ImageProcessor> read_image_processor(const std::string& directory, int64_t channels,
                                                   std::vector<std::string>& notes) {
  const std::string file = fmt::format("{}/{}", directory, kImageProcessorFile);
  if (!fs::exists(file)) {
    notes.push_back(fmt::format(
        "{} has no {}: numbers from 0 to 1 enter the network; `data.augment` says so if others should",
        directory, kImageProcessorFile));
    return std::nullopt;
  }
  const HuggingFaceJson json(read_text_file(file), file);
  const ProcessorKind& kind = kind_of(json);
  ImageProcessor processor;
  parse_sizes(json, kind, processor);
  parse_normalization(json, channels, processor);
  if (json.size("resample", kind.resample, 0) != kBilinear)
    notes.push_back(fmt::format(
        "{}: `resample` is {}; images are scaled bilinearly here (2), which changes their pixels a little",
        file, json.size("resample", kind.resample, 0)));
  return processor;
}

std::string image_data_yaml(const ImageProcessor& processor, int64_t channels) {
  std::string text =
      fmt::format("  train: {{type: images, path: images, size: {}, resize: {}, channels: {}}}\n",
                  yaml_size(processor.scaled), config::dump(processor.rule).text(), channels);
  std::vector<std::string> augment;
  if (processor.size != processor.scaled)
    augment.push_back(fmt::format("    - center_crop: {}\n", yaml_size(processor.size)));
  if (!processor.mean.empty())
    augment.push_back(fmt::format("    - normalize: {{mean: [{}], deviation: [{}]}}\n",
                                  fmt::join(processor.mean, ", "), fmt::join(processor.deviation, ", ")));
  if (!augment.empty()) text += fmt::format("  augment:\n{}", fmt::join(augment, ""));
  return text;
}

std::optional<ImageProcessor> image_processor_of(const Config& config, std::vector<std::string>& notes) {
  const Node* data = config.root.find("data");
  const Node* train = data ? data->find("train") : nullptr;
  const Node* type = train ? train->find("type") : nullptr;
  if (type && type->text() == "images") {
    const auto images = parse_checked<ConvertedImages>(*train, {"size", "resize"});
    ImageProcessor processor{
        .scaled = size_of(images.size), .rule = images.resize, .size = {}, .mean = {}, .deviation = {}};
    processor.size = processor.scaled;
    const Node* augment = data->find("augment");
    if ((!augment || add_augmentations(*augment, processor)) && can_be_written(processor)) return processor;
  }
  notes.push_back(
      fmt::format("without {}: it cannot say what `data` of the run does to images", kImageProcessorFile));
  return std::nullopt;
}

std::string image_processor_json(const ImageProcessor& processor, int64_t channels) {
  const bool is_square = processor.rule == ResizeRule::kCrop,
             crops = is_square || processor.size != processor.scaled;
  nlohmann::ordered_json json = {{"image_processor_type", is_square ? "BitImageProcessor"
                                                          : crops   ? "DeiTImageProcessor"
                                                                    : "ViTImageProcessor"},
                                 {"do_resize", true}};
  if (is_square) {
    json["size"] = {{"shortest_edge", processor.scaled.rows}};
  } else {
    json["size"] = edges_json(processor.scaled);
  }
  json["resample"] = kBilinear;
  json["do_center_crop"] = crops;
  if (crops) json["crop_size"] = edges_json(processor.size);
  json["do_rescale"] = true;
  json["rescale_factor"] = 1 / kLargestByte;
  json["do_normalize"] = !processor.mean.empty();
  if (!processor.mean.empty()) {
    json["image_mean"] = for_channels(processor.mean, channels);
    json["image_std"] = for_channels(processor.deviation, channels);
  }
  return json.dump(2) + "\n";
}

}  // namespace mtf
