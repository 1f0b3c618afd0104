// The augmentation `normalize`: (x - mean) / deviation for each channel.
#include <fmt/format.h>

#include <array>

#include "data/augment/augmentation.h"

namespace mtf {
namespace {

struct NormalizeOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "normalize";
  static constexpr std::array common_names = {CommonName{"normalise", "`normalize`"},
                                              CommonName{"standardize", "`normalize`"}};
  std::vector<double> mean = {0};
  std::vector<double> deviation = {1};

  bool in_evaluation() const override { return true; }

  ImageShape result(const ImageShape& shape, const Mark& mark) const override {
    for (const std::vector<double>* numbers : {&mean, &deviation}) {
      if (std::ssize(*numbers) != 1 && std::ssize(*numbers) != shape.channels)
        throw Error(ErrorKind::kConfig, mark,
                    fmt::format("`normalize` has {} numbers as `{}`, and the images have {} channel{}",
                                numbers->size(), numbers == &mean ? "mean" : "deviation", shape.channels,
                                shape.channels == 1 ? "" : "s"),
                    "a number for each channel, or one for all");
    }
    ImageShape made = shape;
    made.normalized = true;
    return made;
  }

  void apply(FloatImage& image, Draws&) const override {
    for_each_channel(image, [](float& x, float mean, float deviation) { x = (x - mean) / deviation; });
  }

  void undo(FloatImage& image) const override {
    for_each_channel(image, [](float& x, float mean, float deviation) { x = x * deviation + mean; });
  }

 private:
  template <class Change>
  void for_each_channel(FloatImage& image, const Change& change) const {
    const int64_t depth = image.shape.channels, size = image.shape.size();
    for (int64_t k = 0; k < depth; ++k) {
      const auto at = [k](const std::vector<double>& numbers) {
        return static_cast<float>(numbers.size() == 1 ? numbers[0] : numbers[static_cast<size_t>(k)]);
      };
      const float m = at(mean), d = at(deviation);
      float* const x = image.pixels();
      for (int64_t i = k; i < size; i += depth) change(x[i], m, d);
    }
  }
};

void describe(config::Visitor& visit, NormalizeOptions& options) {
  visit("mean", options.mean, "what is subtracted: a number for each channel, or one for all");
  visit("deviation", options.deviation, "what is divided by afterwards", config::positive);
}

const config::Registration<AugmentationOptions, NormalizeOptions> normalize_registration;

}  // namespace
}  // namespace mtf
