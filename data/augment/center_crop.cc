// The augmentation `center_crop`: the middle of the image.
#include <fmt/format.h>

#include "data/augment/augmentation.h"
#include "data/augment/resample.h"

namespace mtf {
namespace {

struct CenterCropOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "center_crop";
  static constexpr std::string_view shorthand = "size";
  std::vector<int64_t> size;

  bool in_evaluation() const override { return true; }

  ImageShape result(const ImageShape& shape, const Mark& mark) const override {
    if (rows_of(size) > shape.rows || cols_of(size) > shape.cols)
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("`center_crop` makes {} x {} pixels of images of {} x {}", rows_of(size),
                              cols_of(size), shape.rows, shape.cols),
                  "a `size` no larger than the images, or `resize` before it");
    ImageShape made = shape;
    made.rows = rows_of(size);
    made.cols = cols_of(size);
    return made;
  }

  void apply(FloatImage& image, Draws&) const override {
    const int64_t rows = rows_of(size), cols = cols_of(size);
    if (rows == image.shape.rows && cols == image.shape.cols) return;
    cut(image, (image.shape.rows - rows) / 2, (image.shape.cols - cols) / 2, rows, cols);
  }
};

void describe(config::Visitor& visit, CenterCropOptions& options) {
  visit("size", options.size, "[rows, cols] of the middle, or one number for both", config::required,
        config::positive);
  check_size(visit, options.size);
}

const config::Registration<AugmentationOptions, CenterCropOptions> center_crop_registration;

}  // namespace
}  // namespace mtf
