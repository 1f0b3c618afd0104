// Assigns variables, or rows of them, to parameter servers, and builds the graphs with which the servers
// update them.
//
// Weights are placed as train.strategy.placement says. By default they are placed by size: the largest first,
// each on the server with the fewest bytes. A weight that would give this server clearly more than an even
// share is split by rows (along its first dimension) over all servers, if the optimizer updates each element
// independently, so that the results have the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/spmd/program.h"
#include "trainer/config/config.h"
#include "trainer/optimizer/update.h"

namespace mtf {

/// The rows [begin, end) of a weight, on a server.
struct WeightPart {
  int server = 0;
  int64_t begin = 0;
  int64_t end = 1;
};

struct PlacedWeight {
  Variable variable;
  std::vector<WeightPart> parts;  ///< in order of rows; a single part is the whole weight
  bool is_trained = false;        ///< the optimizer updates it, and keeps its running mean if there are any
  /// The gradient's dtype; nullopt: the loss does not depend on the weight.
  std::optional<DType> gradient = {};

  bool is_split() const { return parts.size() > 1; }
};

/// Places the weights of the workers' `program`, which has outputs grad/VARIABLE, in the graph's order.
/// Patterns of the configuration that match no weight are reported to `diagnostics`.
std::vector<PlacedWeight> place_weights(const Program& program, const Config& config,
                                        Diagnostics& diagnostics);

/// A variable, or rows of one, that a server stores, and its id in messages.
struct ServedVariable {
  uint32_t id = 0;
  int server = 0;
  Variable variable;      ///< has the shape of the stored part
  int64_t first_row = 0;  ///< index of the first stored row in the whole variable

  int64_t bytes() const { return bytes_of(variable.shape, variable.dtype); }
  /// The byte offset of the stored part in the whole variable.
  int64_t first_byte() const { return first_row > 0 ? bytes() / variable.shape[0].size * first_row : 0; }
};

/// The graph with which a server updates its weights. Its inputs are grad/VARIABLE of its own weights, the
/// loss, square/0, square/1, ... (the sums of squares of all gradients of the run, in order), and `scalars`.
struct ServerGraph {
  std::unique_ptr<Graph> update;  ///< has the outputs grad_norm and finite
  std::vector<StepScalar> scalars;
};
ServerGraph build_server_graph(const std::vector<PlacedWeight>& weights, int server,
                               const UpdateOptions& options);

/// Returns all variables of all servers: the weights, each with its optimizer slots.
std::vector<ServedVariable> served_variables(const std::vector<PlacedWeight>& weights, int servers,
                                             const UpdateOptions& options);

/// Returns lines that say how much each server stores and which weights are split.
std::vector<std::string> describe_placement(const std::vector<PlacedWeight>& weights,
                                            const std::vector<ServedVariable>& variables, int servers);

}  // namespace mtf
