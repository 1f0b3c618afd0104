// The plan that the workers and parameter servers of a run share: the workers' program, the placement of the
// variables, and the gradients that are pushed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/comm/parameters/parameter_protocol.h"
#include "trainer/parameter_server/gradient_plan.h"
#include "trainer/parameter_server/weight_placement.h"
#include "trainer/session/session.h"

namespace mtf {

struct ParameterServerPlan {
  UpdateOptions update;
  Program program;                        ///< the workers' program: loss and gradients of a part of the batch
  std::vector<PlacedWeight> weights;      ///< in the graph's order
  std::vector<ServedVariable> variables;  ///< the variables of all servers, by id
  /// A gradient, or rows of one, and the server to which it is pushed.
  struct Gradient {
    int server = 0;
    size_t weight = 0;
    GradientPlan plan;
  };
  std::vector<Gradient> gradients;  ///< in the order of weights and rows
  size_t squares = 0;               ///< number of weights with a gradient
  std::vector<std::string> warnings;
  std::vector<std::string> places;  ///< lines for the log
  ParameterFields fields;           ///< values that must be equal in all processes

  /// True if the gradient's weight is split over servers, so that the sum of its squares is computed in
  /// blocks.
  bool is_split(const Gradient& gradient) const { return weights[gradient.weight].is_split(); }
};

/// Makes the plan. Errors of the configuration are added to `diagnostics`; the result is then nullopt.
std::optional<ParameterServerPlan> plan_parameter_servers(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
