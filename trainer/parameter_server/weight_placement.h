// Which parameter server keeps which variable, or which rows of it, and the graphs with which it updates
// them.
//
// Weights go to the servers as train.strategy.placement says; by bytes: the largest first, each to the server
// with the least. One with which that server would have clearly more than an even share is split in rows
// (along its first dimension) over all of them, if the optimizer updates each element for itself, so that
// bits stay the same.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/spmd/program.h"
#include "trainer/config/config.h"
#include "trainer/optimizer/update.h"

namespace mtf {

/// Rows [begin, end) of a weight on a server.
struct WeightPart {
  int server = 0;
  int64_t begin = 0;
  int64_t end = 1;
};

struct PlacedWeight {
  Variable variable;
  std::vector<WeightPart> parts;       ///< in order of rows; one: the whole weight is there
  bool is_trained = false;             ///< a running mean of it is kept, if there are any
  std::optional<DType> gradient = {};  ///< its type; nothing: the loss does not depend on the weight

  bool is_split() const { return parts.size() > 1; }
};

/// The weights that `program` (of a worker, with outputs grad/VARIABLE) reads and trains, in the graph's
/// order. Patterns that match none of them go to `diagnostics`.
std::vector<PlacedWeight> place_weights(const Program& program, const Config& config,
                                        Diagnostics& diagnostics);

/// A variable, or rows of one, that a server keeps, and the number that it has in messages.
struct ServedVariable {
  uint32_t id = 0;
  int server = 0;
  Variable variable;      ///< with the shape of what is there
  int64_t first_row = 0;  ///< of the whole variable

  int64_t bytes() const { return variable.shape.size() * static_cast<int64_t>(size_of(variable.dtype)); }
  /// Where it begins in the whole variable.
  int64_t first_byte() const { return first_row > 0 ? bytes() / variable.shape[0].size * first_row : 0; }
};

/// What a server updates with. Inputs: grad/VARIABLE of its own weights, the loss, square/0 and so on of all
/// gradients of the run in order, and `scalars`.
struct ServerGraph {
  std::unique_ptr<Graph> update;  ///< outputs grad_norm, finite
  std::vector<StepScalar> scalars;
};
ServerGraph build_server_graph(const std::vector<PlacedWeight>& weights, int server,
                               const UpdateOptions& options);

/// All variables of all servers: weights, each with its slots.
std::vector<ServedVariable> served_variables(const std::vector<PlacedWeight>& weights, int servers,
                                             const UpdateOptions& options);

/// How much each server keeps, and what is split, one line each.
std::vector<std::string> describe_placement(const std::vector<PlacedWeight>& weights,
                                            const std::vector<ServedVariable>& variables, int servers);

}  // namespace mtf
