// Which parameter server keeps which variable, and the graphs with which it updates them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/spmd/program.h"
#include "trainer/config.h"
#include "trainer/optimizer/optimizers.h"

namespace mtf {

/// host:port of the job `ps`, by task.
std::vector<std::string> server_addresses(const Config& config);

/// A weight on a server.
struct PlacedWeight {
  Variable variable;
  int server = 0;
  bool is_trained = false;             ///< a running mean of it is kept, if there are any
  std::optional<DType> gradient = {};  ///< its type; nothing: the loss does not depend on the weight
};

/// The weights that `program` (of a worker, with outputs grad/VARIABLE) reads and trains, in the graph's
/// order.
std::vector<PlacedWeight> place_weights(const Program& program, const Config& config);

/// A variable that a server keeps, and the number that it has in messages.
struct ServedVariable {
  uint32_t id = 0;
  int server = 0;
  Variable variable;
};

/// What a server computes with. Inputs: grad/VARIABLE of its own weights; of the update also the loss,
/// square/0 and so on of all gradients of the run in order, and `scalars`.
struct ServerGraphs {
  std::unique_ptr<Graph> squares;  ///< outputs square/0 and so on, by own gradient; null: it has none
  std::unique_ptr<Graph> update;   ///< outputs grad_norm, finite
  std::vector<StepScalar> scalars;
  size_t gradients = 0;  ///< of its own weights
};
ServerGraphs build_server_graphs(const std::vector<PlacedWeight>& weights, int server,
                                 const UpdateOptions& options);

/// All variables of all servers: weights and slots.
std::vector<ServedVariable> served_variables(const std::vector<PlacedWeight>& weights, int servers,
                                             const UpdateOptions& options);

}  // namespace mtf
