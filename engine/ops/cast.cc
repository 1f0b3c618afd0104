#include "engine/ops/cast.h"

#include "engine/graph/graph.h"
#include "engine/ops/widen.h"

namespace mtf {

std::string Cast::attributes() const { return std::string(short_name(outputs()[0].dtype)); }

Tensors Cast::gradient(const Tensors& dy) const {
  const bool floating = is_floating(input(0).dtype()) && is_floating(outputs()[0].dtype);
  return {floating ? widened(dy[0], input(0).dtype()) : Tensor()};
}

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : x.graph().add<Cast>(x, dtype).output();
}

}  // namespace mtf
