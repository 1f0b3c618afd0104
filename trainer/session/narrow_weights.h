// Weights in fewer bits, which programs that infer read in products (precision.infer): engine/ops/narrow_products.h.
//
//   const NarrowWeights narrow(session, *graph, layouts);      // graph: built with narrow_options()
//   VariableStore weights(..., program.variables, ...);        // program: compiled from the graph
//   narrow.make(session, weights, [&](VariableStore& some) { load_weights(chosen, session, some); });
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/ops/narrow_products.h"
#include "engine/runtime/variable_store.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns how graphs that only infer multiply with weights. Null: as all graphs do.
std::optional<NarrowOptions> narrow_options(const Config& config, const Layouts& layouts);

/// Makes the narrow copies that the programs of a graph read.
class NarrowWeights {
 public:
  /// Makes none.
  NarrowWeights() = default;
  NarrowWeights(const Session& session, const Graph& graph, const Layouts& layouts);

  /// Sets the copies in `variables`. `load` is called with stores of some of those weights that `variables` lacks, whose
  /// values it sets; they are freed again, so that memory has never many of them. Every process calls it. Null: `variables`
  /// has all weights.
  void make(const Session& session, VariableStore& variables,
            const std::function<void(VariableStore& weights)>& load = {}) const;

 private:
  std::vector<Program> conversions_;
};

}  // namespace mtf
