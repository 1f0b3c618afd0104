// What workers and parameter servers of a run agree on: the workers' program, where variables are, and who
// pushes what.
#pragma once

#include <vector>

#include "engine/comm/parameters/parameter_protocol.h"
#include "trainer/parameter_server/gradient_plan.h"
#include "trainer/parameter_server/weight_placement.h"
#include "trainer/session/session.h"

namespace mtf {

struct ParameterServerPlan {
  UpdateOptions update;
  Program program;                        ///< of a worker: loss and gradients of its part of the batch
  std::vector<PlacedWeight> weights;      ///< in the graph's order
  std::vector<ServedVariable> variables;  ///< of all servers, by id
  /// A gradient, or rows of it, and the server that they go to.
  struct Gradient {
    int server = 0;
    size_t weight = 0;
    GradientPlan plan;
  };
  std::vector<Gradient> gradients;  ///< in the order of weights and rows
  size_t squares = 0;               ///< number of weights with a gradient
  std::vector<std::string> warnings;
  std::vector<std::string> places;  ///< lines for the log
  ParameterFields fields;           ///< that all processes must have in common

  /// The sum of its squares comes from its servers in blocks.
  bool is_split(const Gradient& gradient) const { return weights[gradient.weight].is_split(); }
};

/// Errors of the configuration go to `diagnostics`; nothing then.
std::optional<ParameterServerPlan> plan_parameter_servers(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
