// The augmentation `crop`: a part of the image at a random place, after zeros were put around it.
#include <fmt/format.h>

#include <array>

#include "data/augment/augmentation.h"
#include "data/augment/resample.h"

namespace mtf {
namespace {

struct CropOptions final : AugmentationOptions {
  static constexpr std::string_view type_name = "crop";
  static constexpr std::string_view shorthand = "size";
  static constexpr std::array common_names = {CommonName{"random_crop", "`crop`"},
                                              CommonName{"pad", "`crop: {padding: 4}`"}};
  std::vector<int64_t> size;
  int64_t padding = 0;

  ImageShape result(const ImageShape& shape, const Mark& mark) const override {
    ImageShape made = shape;
    if (!size.empty()) {
      made.rows = rows_of(size);
      made.cols = cols_of(size);
    }
    if (made.rows > shape.rows + 2 * padding || made.cols > shape.cols + 2 * padding)
      throw Error(
          ErrorKind::kConfig, mark,
          fmt::format("`crop` makes {} x {} pixels of images of {} x {}{}", made.rows, made.cols, shape.rows,
                      shape.cols, padding > 0 ? fmt::format(" with a padding of {}", padding) : ""),
          "a `size` no larger than the images with their padding");
    return made;
  }

  void apply(FloatImage& image, Draws& draws) const override {
    const int64_t rows = size.empty() ? image.shape.rows : rows_of(size);
    const int64_t cols = size.empty() ? image.shape.cols : cols_of(size);
    const int64_t top = draws.below(image.shape.rows + 2 * padding - rows + 1) - padding;
    const int64_t left = draws.below(image.shape.cols + 2 * padding - cols + 1) - padding;
    cut(image, top, left, rows, cols);
  }
};

void describe(config::Visitor& visit, CropOptions& options) {
  visit("size", options.size, "[rows, cols] of the part, or one number for both; none: the image's own",
        config::positive);
  visit("padding", options.padding, "zeros that are put at each side before",
        config::Bounds{0.0, 1e6, false});
  check_size(visit, options.size, true);
  visit.check([&options](const config::Report& report) {
    if (options.size.empty() && options.padding == 0)
      report.error("padding", "`crop` without `size` and `padding` changes nothing", "`crop: {padding: 4}`");
  });
}

const config::Registration<AugmentationOptions, CropOptions> crop_registration;

}  // namespace
}  // namespace mtf
