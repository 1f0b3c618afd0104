#include "engine/ops/relative_bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/reproducible_math.h"

namespace mtf {

int64_t RelativeBuckets::operator()(int64_t relative) const {
  int64_t first = 0, count = buckets, distance = -relative;
  if (bidirectional) {
    count /= 2;
    if (distance < 0) first = count;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(distance, 0);
  }
  const int64_t exact = count / 2;
  if (distance < exact) return first + distance;
  const double steps = static_cast<double>(count - exact), start = static_cast<double>(exact);
  const auto octaves = static_cast<float>(reproducible::log(static_cast<double>(max_distance) / start));
  const float place = reproducible::log(static_cast<float>(distance) / static_cast<float>(exact)) / octaves;
  return first + std::min(count - 1, exact + static_cast<int64_t>(place * static_cast<float>(steps)));
}

Tensor relative_bucket(const Tensor& relative, const RelativeBuckets& buckets) {
  if (relative.dtype() != DType::kInt32) shape_error("relative_bucket", "positions are int32");
  return relative.graph().add<RelativeBucket>(relative, buckets).output();
}

std::string RelativeBucket::attributes() const {
  return fmt::format("bidirectional={}, buckets={}, max_distance={}", buckets.bidirectional, buckets.buckets,
                     buckets.max_distance);
}

}  // namespace mtf
