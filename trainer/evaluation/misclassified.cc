#include "trainer/evaluation/misclassified.h"

#include <algorithm>
#include <span>

#include "data/augment/augmented_source.h"
#include "data/images/encode.h"
#include "data/images/resize.h"
#include "engine/base/base64.h"
#include "trainer/session/example_images.h"
#include "trainer/session/open_data.h"

namespace mtf {
namespace {

/// Reads the features of one example at a time.
class ExampleReader {
 public:
  explicit ExampleReader(const Source& source) : source_(source) {
    for (const Feature& feature : source.features()) {
      values_.emplace_back(static_cast<size_t>(feature.bytes()));
      slices_.push_back({values_.back().data()});
    }
  }

  std::span<const std::byte> read(int64_t example, size_t feature) {
    source_.read(std::span(&example, 1), slices_);
    return values_[feature];
  }

 private:
  const Source& source_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<FeatureSlice> slices_;
};

std::string data_uri(const Image& image) {
  const int64_t side = std::max(image.rows, image.cols);
  const auto scaled = [&](int64_t size) { return std::max<int64_t>(1, size * kMisclassifiedSide / side); };
  const std::vector<std::byte> file =
      encode_png(side <= kMisclassifiedSide
                     ? image
                     : resized(image, scaled(image.rows), scaled(image.cols), ResizeRule::kStretch));
  return std::string(kPngUri) + base64({reinterpret_cast<const char*>(file.data()), file.size()});
}

}  // namespace

std::vector<MisclassifiedImage> read_misclassified(const Session& session, const EvaluationSet& set,
                                                   const std::set<Mistake>& mistakes) {
  const std::vector<Feature>& features = set.source->features();
  const size_t feature = *image_feature(session.config, features);
  const AugmentSettings settings = augment_settings(session.config, AugmentFor::kEvaluation);
  ExampleReader reader(*set.source);
  const FeatureImage order = *image_of(features[feature]);
  FloatImage image(order.shape.size());
  image.shape = order.shape;
  std::vector<MisclassifiedImage> images;
  for (const Mistake& mistake : mistakes) {
    const std::span<const std::byte> bytes = reader.read(mistake.example, feature);
    order.read(reinterpret_cast<const float*>(bytes.data()), image.pixels());
    undo_normalization(image, settings);
    const std::vector<float> values(image.pixels(), image.pixels() + image.shape.size());
    BrightnessRange range;
    range.include(values);
    images.push_back({mistake, data_uri(drawn(values, image.shape, range, image.shape.channels))});
  }
  return images;
}

}  // namespace mtf
