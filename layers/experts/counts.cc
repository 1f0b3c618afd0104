#include "layers/experts/counts.h"

#include "engine/graph/graph.h"
#include "engine/ops/indexing.h"
#include "engine/ops/unary.h"

namespace mtf {

Tensor count_choices(const Tensor& expert, const Dimension& experts, const Shape& rows, DType dtype) {
  Graph& graph = expert.graph();
  const Tensor ones = graph.constant(1, dtype, expert.shape());
  return stop_gradient(graph.add<GatherGradient>(ones, expert, experts.name, rows + experts, dtype).output());
}

}  // namespace mtf
