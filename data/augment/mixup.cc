// The augmentation `mixup`: a weighted mean of two images (Zhang et al. 2018: mixup: beyond empirical risk minimization).
#include <array>

#include "data/augment/augmentation.h"

namespace mtf {
namespace {

struct MixupOptions final : MixingOptions {
  static constexpr std::string_view type_name = "mixup";
  static constexpr std::string_view shorthand = "alpha";
  static constexpr std::array common_names = {CommonName{"mix_up", "`mixup`"}};
  double alpha = 0.2;

  float mix(FloatImage& image, const FloatImage& other, Draws& draws) const override {
    const auto weight = static_cast<float>(draws.beta(alpha)), rest = 1 - weight;
    float* const x = image.pixels();
    const float* const y = other.pixels();
    const int64_t size = image.shape.size();
    for (int64_t i = 0; i < size; ++i) x[i] = weight * x[i] + rest * y[i];
    return weight;
  }
};

void describe(config::Visitor& visit, MixupOptions& options) {
  visit("alpha", options.alpha, "the weight of an image is of the distribution Beta(alpha, alpha)",
        config::positive);
  describe_common(visit, options);
}

const config::Registration<AugmentationOptions, MixupOptions> mixup_registration;

}  // namespace
}  // namespace mtf
