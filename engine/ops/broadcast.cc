#include "engine/ops/broadcast.h"

#include <fmt/format.h>

#include "engine/graph/graph.h"
#include "engine/ops/reduce.h"

namespace mtf {

Broadcast::Broadcast(const Tensor& x, const Shape& shape) : OperationBase({x}, {{shape, x.dtype()}}) {
  if (!shape.contains_all(x.shape())) {
    shape_error(name(), fmt::format("{} lacks dimensions of {}", shape.to_string(), x.shape().to_string()),
                "the output shape has all dimensions of the input");
  }
}

Tensors Broadcast::gradient(const Tensors& dy) const { return {reduce_sum(dy[0], input(0).shape())}; }

Tensor broadcast(const Tensor& x, const Shape& shape) {
  if (same_dimensions(x.shape(), shape)) return transpose(x, shape);
  return x.graph().add<Broadcast>(x, shape).output();
}

}  // namespace mtf
