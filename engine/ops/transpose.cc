#include "engine/ops/transpose.h"

#include <fmt/format.h>

#include "engine/graph/graph.h"

namespace mtf {

Transpose::Transpose(const Tensor& x, const Shape& shape) : OperationBase({x}, {{shape, x.dtype()}}) {
  if (!same_dimensions(x.shape(), shape)) {
    shape_error(name(),
                fmt::format("{} and {} have different dimensions", x.shape().to_string(), shape.to_string()),
                "only the order may change");
  }
}

Tensors Transpose::gradient(const Tensors& dy) const { return {transpose(dy[0], input(0).shape())}; }

Tensor transpose(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : x.graph().add<Transpose>(x, shape).output();
}

}  // namespace mtf
