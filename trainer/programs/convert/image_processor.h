// What is done to an image before a network sees it: preprocessor_config.json of Hugging Face, and `data.train` and
// `data.augment` of a configuration.
//
//   const std::optional<ImageProcessor> processor = read_image_processor("vit-base-patch16-224", 3, notes);
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/images/resize.h"
#include "trainer/config/config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

struct ImageSize {
  int64_t rows = 224;
  int64_t cols = 224;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// Reads a key that is one number for both, or two: [rows, cols]. Throws Error (kCheckpoint).
ImageSize parse_image_size(const HuggingFaceJson& json, const char* key, const ImageSize& otherwise);
/// One number for both where they are the same, else [rows, cols].
nlohmann::ordered_json image_size_json(const ImageSize& size);

/// Pixels are numbers from 0 to 1; the network is given (pixel - mean) / deviation.
struct ImageProcessor {
  ImageSize scaled;                     ///< what images are scaled to
  ResizeRule rule = ResizeRule::kCrop;  ///< how those of another shape are
  ImageSize size;                       ///< the middle of it that the network is given
  std::vector<double> mean, deviation;  ///< a number for each channel; none: pixels enter as they are

  friend bool operator==(const ImageProcessor&, const ImageProcessor&) = default;
};

/// Reads preprocessor_config.json of a directory; where there is none, the result is nothing, which a note says. Throws Error
/// (kCheckpoint) for what `data` here cannot do to images of so many channels.
std::optional<ImageProcessor> read_image_processor(const std::string& directory, int64_t channels,
                                                   std::vector<std::string>& notes);
/// Returns the lines of the section `data`.
std::string image_data_yaml(const ImageProcessor& processor, int64_t channels);

/// Returns what the configuration of a run does to images in evaluation; nothing if its data are no images of files, or
/// config.json cannot say it, which a note tells.
std::optional<ImageProcessor> image_processor_of(const Config& config, std::vector<std::string>& notes);
/// Returns the text of preprocessor_config.json.
std::string image_processor_json(const ImageProcessor& processor, int64_t channels);

inline constexpr const char* kImageProcessorFile = "preprocessor_config.json";

}  // namespace mtf
