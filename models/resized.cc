#include "models/resized.h"

#include "engine/ops/reshape.h"
#include "engine/ops/slice.h"

namespace mtf {

Tensor resized(const Tensor& x, const Dimension& dimension) {
  const int64_t size = x.shape().dimension(dimension.name).size;
  if (size == dimension.size) return x;
  const std::string whole = dimension.name + "_unsplit";  // no layout rule has this name
  const Tensor before = rename(x, dimension.name, whole);
  const Tensor after = size > dimension.size ? slice(before, whole, 0, dimension.size)
                                             : pad(before, whole, 0, dimension.size - size);
  return rename(after, whole, dimension.name);
}

}  // namespace mtf
