#include "layers/embedding.h"

#include "engine/ops/einsum.h"

namespace mtf {

Tensor project(const Tensor& x, const Dimension& from, const Tensor& kernel, const Dimension& to) {
  return einsum({x, kernel}, x.shape() - Shape{from} + Shape{to});
}

}  // namespace mtf
