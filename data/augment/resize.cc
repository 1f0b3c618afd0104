// The augmentation `resize`: the whole image, or its middle, at another size.
#include "data/images/resize.h"

#include <algorithm>

#include "data/augment/augmentation.h"
#include "data/augment/resample.h"

namespace mtf {
namespace {

struct ResizeOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "resize";
  static constexpr std::string_view shorthand = "size";
  std::vector<int64_t> size;
  ResizeRule rule = ResizeRule::kCrop;

  bool in_evaluation() const override { return true; }

  ImageShape result(const ImageShape& shape, const Mark&) const override {
    ImageShape made = shape;
    made.rows = rows_of(size);
    made.cols = cols_of(size);
    return made;
  }

  void apply(FloatImage& image, Draws&) const override {
    const int64_t rows = rows_of(size), cols = cols_of(size);
    if (rows == image.shape.rows && cols == image.shape.cols) return;
    const auto height = static_cast<double>(image.shape.rows), width = static_cast<double>(image.shape.cols);
    const double aspect = static_cast<double>(cols) / static_cast<double>(rows);
    if (rule == ResizeRule::kPad) {
      const double scale = std::min(static_cast<double>(rows) / height, static_cast<double>(cols) / width);
      const int64_t inner_rows = std::clamp<int64_t>(static_cast<int64_t>(height * scale + 0.5), 1, rows);
      const int64_t inner_cols = std::clamp<int64_t>(static_cast<int64_t>(width * scale + 0.5), 1, cols);
      resample(image, {0, 0, height, width}, inner_rows, inner_cols);
      return cut(image, -(rows - inner_rows) / 2, -(cols - inner_cols) / 2, rows, cols);
    }
    ImagePart part{0, 0, height, width};
    if (rule == ResizeRule::kCrop) {
      part.rows = std::min(height, width / aspect);
      part.cols = std::min(width, height * aspect);
      part.top = (height - part.rows) / 2;
      part.left = (width - part.cols) / 2;
    }
    resample(image, part, rows, cols);
  }
};

void describe(config::Visitor& visit, ResizeOptions& options) {
  visit("size", options.size, "[rows, cols] of the result, or one number for both", config::required,
        config::positive);
  visit("rule", options.rule,
        "how an image of another shape gets this size: crop cuts its middle out, pad leaves zeros at two "
        "sides, "
        "stretch distorts it");
  check_size(visit, options.size);
}

const config::Registration<AugmentationOptions, ResizeOptions> resize_registration;

}  // namespace
}  // namespace mtf
