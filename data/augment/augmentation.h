// Augmentations of images (`data.augment`). An augmentation is one file of data/augment with its options, its formula and
// its registration:
//
//   struct InvertOptions final : AugmentationOptions {
//     static constexpr std::string_view type_name = "invert";
//     static constexpr std::string_view shorthand = "probability";   // - invert: 0.1
//     double probability = 0.5;
//     void apply(FloatImage& image, Draws& draws) const override { ... }
//   };
//   void describe(config::Visitor& visit, InvertOptions& options) { visit("probability", options.probability, "..."); }
//   const config::Registration<AugmentationOptions, InvertOptions> invert;
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/augment/float_image.h"
#include "data/draws.h"
#include "engine/config/choice.h"

namespace mtf {

struct AugmentationOptions {
  virtual ~AugmentationOptions() = default;
  /// The shape of what apply() makes of images of such a shape. Throws Error (kConfig) at `mark` where it cannot work on
  /// them.
  virtual ImageShape result(const ImageShape& shape, const Mark& /*mark*/) const { return shape; }
  /// Changes the image of one example. All that is random comes from `draws`, so the result depends on nothing else. It
  /// is safe to call from several threads.
  virtual void apply(FloatImage& image, Draws& draws) const = 0;
  /// True where evaluation applies it, too: it draws nothing, and the network needs what it makes.
  virtual bool in_evaluation() const { return false; }
  /// Gives numbers that are no colours their colours back, so that people can see the image.
  virtual void undo(FloatImage& /*image*/) const {}
};

/// An augmentation that mixes each row of a batch with the next one. The model gets the labels of both rows, and the
/// weight of the first.
struct MixingOptions : AugmentationOptions {
  double probability = 1;

  void apply(FloatImage& image, Draws& draws) const final;
  /// Mixes `other`, of the same shape, into the image and returns the weight of the image's own label, 0 to 1.
  virtual float mix(FloatImage& image, const FloatImage& other, Draws& draws) const = 0;
};
/// The keys that all mixing augmentations have.
void describe_common(config::Visitor& visit, MixingOptions& options);

using Augmentations = std::vector<config::Listed<AugmentationOptions>>;

// For the files of augmentations.

/// The rows and columns of an option `size`: two numbers, or one for both.
int64_t rows_of(const std::vector<int64_t>& size);
int64_t cols_of(const std::vector<int64_t>& size);
/// Checks in `describe` that the option `size` has one number or two; `optional`: or none.
void check_size(config::Visitor& visit, const std::vector<int64_t>& size, bool optional = false);
/// Checks in `describe` that the option `name` is a range [low, high] within bounds.
void check_range(config::Visitor& visit, std::string name, const std::vector<double>& range, double least);
/// Throws Error (kConfig) at `mark` where `augmentation` works on colours, and the images are no longer 0 to 1.
void check_colors(const ImageShape& shape, std::string_view augmentation, const Mark& mark);

}  // namespace mtf
