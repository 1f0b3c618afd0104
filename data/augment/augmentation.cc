#include "data/augment/augmentation.h"

#include <fmt/format.h>

#include "engine/base/check.h"

namespace mtf {

void MixingOptions::apply(FloatImage&, Draws&) const {
  MTF_CHECK(false, "a mixing augmentation works on two images");
}

void describe_common(config::Visitor& visit, MixingOptions& options) {
  visit("probability", options.probability,
        "how often a row is mixed; one that is not is left to the next augmentation that mixes",
        config::probability);
}

int64_t rows_of(const std::vector<int64_t>& size) { return size.front(); }

int64_t cols_of(const std::vector<int64_t>& size) { return size.back(); }

void check_size(config::Visitor& visit, const std::vector<int64_t>& size, bool optional) {
  visit.check([&size, optional](const config::Report& report) {
    if (size.size() > 2 || (size.empty() && !optional))
      report.error("size", fmt::format("`size` has {} numbers", size.size()), "[rows, cols], or one number");
  });
}

void check_range(config::Visitor& visit, std::string name, const std::vector<double>& range, double least) {
  visit.check([&range, name = std::move(name), least](const config::Report& report) {
    if (range.size() != 2)
      report.error(name, fmt::format("`{}` has {} numbers", name, range.size()), "the least and the most");
    else if (!(range[0] > least) || !(range[0] <= range[1]))
      report.error(name, fmt::format("`{}` is from {} to {}", name, range[0], range[1]),
                   fmt::format("numbers above {}, the smaller one first", least));
  });
}

void check_colors(const ImageShape& shape, std::string_view augmentation, const Mark& mark) {
  if (!shape.normalized) return;
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("`{}` works on colours from 0 to 1, and `normalize` before it makes other numbers",
                          augmentation),
              fmt::format("`{}` before `normalize`", augmentation));
}

}  // namespace mtf
