#include "engine/ops/widen.h"

#include "engine/graph/structural.h"
#include "engine/ops/cast.h"
#include "engine/ops/reshape.h"

namespace mtf {
Tensor widened(const Tensor& x, DType dtype) {
  if (x.dtype() != DType::kBFloat16 || dtype != DType::kFloat32) return cast(x, dtype);
  const Operation& operation = x.operation();
  if (const auto* narrowed = dynamic_cast<const Cast*>(&operation);
      narrowed && narrowed->input(0).dtype() == DType::kFloat32) {
    return narrowed->input(0);
  }
  Tensor wide;
  {
    // The new operations have the layout of those that they replace, not that of the variable whose gradient
    // this is.
    const Graph::Scope scope = x.graph().with(operation.scope());
    if (dynamic_cast<const AddN*>(&operation)) {
      Tensors terms;
      for (const Tensor& term : operation.inputs()) terms.push_back(widened(term, dtype));
      wide = add_n(terms);
    } else if (dynamic_cast<const Reshape*>(&operation)) {
      wide = reshape(widened(operation.input(0), dtype), x.shape());
    } else {
      wide = operation.wide_sum();
    }
  }
  return wide ? wide : cast(x, dtype);
}

}  // namespace mtf
