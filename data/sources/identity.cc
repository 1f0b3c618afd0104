#include "data/sources/identity.h"

#include <cstring>

#include "engine/base/check.h"

namespace mtf {

IdentitySource::IdentitySource(int64_t examples, Dimension dimension, uint64_t seed)
    : examples_(examples),
      features_({{"x", Shape{dimension}, DType::kFloat32}, {"y", Shape{dimension}, DType::kFloat32}}),
      key_(random_key("data/identity", seed)) {
  MTF_CHECK(examples >= 1, "{} examples", examples);
}

void IdentitySource::read(std::span<const int64_t> rows, std::span<std::byte* const> outputs) const {
  auto* x = reinterpret_cast<float*>(outputs[0]);
  const int64_t size = features_[0].shape.size();
  for (const int64_t row : rows) {
    MTF_CHECK(row >= 0 && row < examples_, "row {} of {}", row, examples_);
    for (int64_t i = 0; i < size; ++i) *x++ = uniform(key_, RandomStream::kData, 0, row * size + i);
  }
  std::memcpy(outputs[1], outputs[0], rows.size() * static_cast<size_t>(features_[0].bytes()));
}

}  // namespace mtf
