// Makes the copies of weights that programs read which only infer (engine/ops/weight_copies.h).
//
//   const WeightConversions conversions(session, *graph, layouts);   // graph: built with weight_copy_options()
//   VariableStore weights(..., program.variables, ...);              // program: compiled from the graph
//   conversions.make(session, weights, [&](VariableStore& some) { load_weights(chosen, session, some); });
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/ops/weight_copies.h"
#include "engine/runtime/variable_store.h"
#include "trainer/session/session.h"

namespace mtf {

/// Returns which copies of weights graphs that only infer read: those of precision.infer, and with `reads_copies` on a
/// processor also those in float32. Null: none.
std::optional<WeightCopyOptions> weight_copy_options(const Session& session, const Layouts& layouts,
                                                     bool reads_copies = false);

/// Makes the copies that the programs of a graph read.
class WeightConversions {
 public:
  /// Makes none.
  WeightConversions() = default;
  WeightConversions(const Session& session, const Graph& graph, const Layouts& layouts);

  /// Sets the copies in `variables`. `load` is called with stores of some of those weights that `variables` lacks, whose
  /// values it sets; they are freed again, so that memory has never many of them. Every process calls it. Null: `variables`
  /// has all weights.
  void make(const Session& session, VariableStore& variables,
            const std::function<void(VariableStore& weights)>& load = {}) const;
  /// The names of all weights that the graph has or the copies are made of.
  const std::vector<std::string>& weights() const { return weights_; }

 private:
  std::vector<Program> conversions_;
  std::vector<std::string> weights_;
};

}  // namespace mtf
