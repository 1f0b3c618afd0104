// Gives contractions in a part of a graph another precision than the rest.
//
//   const MatmulPrecisionScope scope(graph, MatmulPrecision::kFull);
//   const Tensor logits = einsum({x, w}, output);  // factors are not rounded, nor are those of its gradient; no copies
#pragma once

#include <memory>

#include "engine/graph/graph.h"

namespace mtf {

/// Contractions that are added to the graph while it lives have the given precision. With kFull they read no copies of
/// weights.
class MatmulPrecisionScope {
 public:
  MatmulPrecisionScope(Graph& graph, MatmulPrecision precision)
      : graph_(graph), before_(graph.matmul_precision()), copies_(graph.weight_copies()) {
    graph.set_matmul_precision(precision);
    if (precision == MatmulPrecision::kFull) graph.set_weight_copies(nullptr);
  }
  ~MatmulPrecisionScope() {
    graph_.set_matmul_precision(before_);
    graph_.set_weight_copies(copies_);
  }
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  Graph& graph_;
  MatmulPrecision before_;
  std::shared_ptr<WeightCopies> copies_;
};

}  // namespace mtf
