#include "engine/runtime/non_finite.h"

#include <algorithm>
#include <cmath>

namespace mtf {
namespace {

double widened(float x) { return x; }
double widened(double x) { return x; }
double widened(BFloat16 x) { return static_cast<float>(x); }

template <class T>
void examine(const std::byte* data, int64_t count, NonFinite& found) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < count; ++i) {
    const double x = widened(values[i]);
    const bool first = found.count == found.nans + found.infinities;  // of the finite ones
    ++found.count;
    if (std::isnan(x)) {
      ++found.nans;
    } else if (std::isinf(x)) {
      ++found.infinities;
    } else {
      found.smallest = first ? x : std::min(found.smallest, x);
      found.largest = first ? x : std::max(found.largest, x);
    }
  }
}

}  // namespace

void examine(DType dtype, const std::byte* data, int64_t count, NonFinite& found) {
  switch (dtype) {
    case DType::kFloat32:
      return examine<float>(data, count, found);
    case DType::kBFloat16:
      return examine<BFloat16>(data, count, found);
    case DType::kFloat64:
      return examine<double>(data, count, found);
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool:
      return;
  }
}

}  // namespace mtf
