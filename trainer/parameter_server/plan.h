// What workers and parameter servers of a run agree on: the workers' program, where variables are, and who
// pushes what.
#pragma once

#include <vector>

#include "engine/comm/parameters/parameter_protocol.h"
#include "trainer/parameter_server/gradient_plan.h"
#include "trainer/parameter_server/placement.h"
#include "trainer/session.h"

namespace mtf {

struct ParameterServerPlan {
  UpdateOptions update;
  Program program;                        ///< of a worker: loss and gradients of its part of the batch
  std::vector<PlacedWeight> weights;      ///< in the graph's order
  std::vector<ServedVariable> variables;  ///< of all servers, by id
  std::vector<GradientPlan> gradients;    ///< in the order of weights that have one
  std::vector<std::string> warnings;
  ParameterFields fields;  ///< that all processes must have in common

  int server_of(const std::string& weight) const;
};

/// Errors of the configuration go to `diagnostics`; nothing then.
std::optional<ParameterServerPlan> plan_parameter_servers(const Session& session, Diagnostics& diagnostics);

/// Processes that compute, without the servers.
int worker_count(const Config& config);

}  // namespace mtf
