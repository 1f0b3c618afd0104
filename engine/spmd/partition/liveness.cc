#include "engine/spmd/partition/liveness.h"

#include "engine/graph/structural.h"

namespace mtf {
namespace {

void mark(const Tensors& tensors, OperationSet& live) {
  for (const Tensor& t : tensors) {
    if (t) live.insert(&t.operation());
  }
}

void mark_block(const Block& block, OperationSet& live) {
  for (auto it = block.rbegin(); it != block.rend(); ++it) {
    const Operation& operation = **it;
    if (operation.name() == "assign") live.insert(&operation);
    if (!live.contains(&operation)) continue;
    mark(operation.inputs(), live);
    if (const auto* loop = dynamic_cast<const Repeat*>(&operation)) {
      mark(loop->result.carried, live);
      mark(loop->result.sums, live);
      mark(loop->result.placed, live);
      mark(loop->loop_values, live);
      mark_block(loop->body, live);
    }
  }
}

}  // namespace

OperationSet live_operations(const Graph& graph) {
  OperationSet live;
  for (const auto& [name, tensor] : graph.outputs()) live.insert(&tensor.operation());
  mark_block(graph.root(), live);
  return live;
}

OperationSet live_operations(const Block& block, const Tensors& roots) {
  OperationSet live;
  mark(roots, live);
  mark_block(block, live);
  return live;
}

}  // namespace mtf
