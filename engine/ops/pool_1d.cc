#include "engine/ops/pool_1d.h"

#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"

namespace mtf {

Tensor pool_tensor_1d(const Tensor& x, DimensionName dimension, Pooling pooling, int64_t size) {
  const Dimension& d = x.shape().dimension(dimension);
  if (size < 1 || d.size % size != 0) {
    shape_error("pool_tensor_1d",
                fmt::format("`{}` = {} has no whole windows of {} entries", d.name, d.size, size));
  }
  const Dimension window{"_window", size};
  std::vector<Dimension> cut;
  for (const Dimension& other : x.shape()) {
    if (other == d) {
      cut.push_back({d.name, d.size / size});
      cut.push_back(window);
    } else {
      cut.push_back(other);
    }
  }
  const Tensor windows = reshape(x, cut);
  const Shape output = Shape(cut) - window;
  switch (pooling) {
    case Pooling::kMean:
      return reduce_mean(windows, output);
    case Pooling::kMax:
      return reduce_max(windows, output);
    case Pooling::kMin:
      return reduce_min(windows, output);
    case Pooling::kFirst:
      return reduce_first(windows, window.name);
  }
  MTF_CHECK(false, "no such pooling");
}

Tensor stride_tensor_1d(const Tensor& x, DimensionName dimension, int64_t size) {
  return pool_tensor_1d(x, dimension, Pooling::kFirst, size);
}

}  // namespace mtf
