// Gives contractions in a part of a graph another precision than the rest.
//
//   const MatmulPrecisionScope scope(graph, MatmulPrecision::kFull);
//   const Tensor logits = einsum({x, w}, output);  // factors are not rounded, nor are those of its gradient
#pragma once

#include "engine/graph/graph.h"

namespace mtf {

/// Contractions that are added to the graph while it lives have the given precision.
class MatmulPrecisionScope {
 public:
  MatmulPrecisionScope(Graph& graph, MatmulPrecision precision)
      : graph_(graph), before_(graph.matmul_precision()) {
    graph.set_matmul_precision(precision);
  }
  ~MatmulPrecisionScope() { graph_.set_matmul_precision(before_); }
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  Graph& graph_;
  MatmulPrecision before_;
};

}  // namespace mtf
