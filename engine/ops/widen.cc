#include "engine/ops/widen.h"

#include "engine/graph/structural.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"

namespace mtf {
namespace {

/// Returns the sum that computes x with a float32 result, or null if x is not a sum.
Tensor wide_sum(const Tensor& x) {
  const Operation& operation = x.operation();
  Graph& graph = x.graph();
  if (const auto* einsum = dynamic_cast<const Einsum*>(&operation))
    return graph.add<Einsum>(einsum->input(0), einsum->input(1), x.shape(), DType::kFloat32).output();
  if (const auto* gather = dynamic_cast<const GatherGradient*>(&operation)) {
    return graph
        .add<GatherGradient>(gather->input(0), gather->input(1), gather->dimension, x.shape(),
                             DType::kFloat32)
        .output();
  }
  const auto* reduce = dynamic_cast<const Reduce*>(&operation);
  if (reduce && reduce->function == ReduceFunction::kSum)
    return graph.add<Reduce>(ReduceFunction::kSum, reduce->input(0), x.shape(), DType::kFloat32).output();
  return {};
}

}  // namespace

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
    const Graph::Scope scope = x.graph().with(operation.provenance());
    if (dynamic_cast<const AddN*>(&operation)) {
      Tensors terms;
      for (const Tensor& term : operation.inputs()) terms.push_back(widened(term, dtype));
      wide = add_n(terms);
    } else if (dynamic_cast<const Reshape*>(&operation)) {
      wide = reshape(widened(operation.input(0), dtype), x.shape());
    } else {
      wide = wide_sum(x);
    }
  }
  return wide ? wide : cast(x, dtype);
}

}  // namespace mtf
