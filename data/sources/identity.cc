#include "data/sources/identity.h"

#include <cstring>

#include "data/source_options.h"
#include "data/text/text_settings.h"
#include "engine/base/check.h"

namespace mtf {

IdentitySource::IdentitySource(int64_t examples, Dimension dimension, uint64_t seed)
    : examples_(examples),
      features_({{"x", Shape{dimension}, DType::kFloat32}, {"y", Shape{dimension}, DType::kFloat32}}),
      key_(random_key("data/identity", seed)) {
  MTF_CHECK(examples >= 1, "{} examples", examples);
}

void IdentitySource::read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const {
  const int64_t size = features_[0].shape.size();
  const auto fill = [&](const FeatureSlice& slice) {
    auto* x = reinterpret_cast<float*>(slice.output);
    for (const int64_t row : rows) {
      MTF_CHECK(row >= 0 && row < examples_, "row {} of {}", row, examples_);
      for_each_run(features_[0].shape, slice.box, [&](int64_t first, int64_t count) {
        for (int64_t i = first; i < first + count; ++i)
          *x++ = uniform(key_, RandomStream::kData, 0, row * size + i);
      });
    }
  };
  fill(slices[0]);
  const Box *of_x = slices[0].box, *of_y = slices[1].box;
  if (of_x == of_y || (of_x && of_y && *of_x == *of_y)) {
    std::memcpy(slices[1].output, slices[0].output,
                rows.size() * static_cast<size_t>(slices[0].bytes(features_[0])));
  } else {
    fill(slices[1]);
  }
}

namespace {

/// Random inputs that are their own targets.
struct IdentityOptions final : SourceOptions {
  static constexpr std::string_view type_name = "identity";
  int64_t size = 16;
  int64_t examples = 4096;
  std::string dimension = "io";

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    return std::make_unique<IdentitySource>(examples, Dimension{dimension, size}, context.seed);
  }
  std::optional<std::vector<Feature>> declared_features(const BySide<int64_t>&,
                                                        const BySide<int64_t>&) const override {
    return open({})->features();
  }
  std::string same_feature(const std::string& feature) const override { return feature == "y" ? "x" : ""; }
};

void describe(config::Visitor& visit, IdentityOptions& options) {
  visit("size", options.size, "numbers in each example", config::positive);
  visit("examples", options.examples, "examples of one epoch", config::positive);
  visit("dimension", options.dimension, "name of their dimension");
}

const config::Registration<SourceOptions, IdentityOptions> identity_registration;

}  // namespace
}  // namespace mtf
