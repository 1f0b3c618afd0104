// A worker of a run with parameter servers. It computes gradients and pushes them to the servers, which
// update the variables, and pulls the variables.
//
// Synchronous training: the workers run one program over all their mesh positions, and a step applies the sum
// of their gradients, which has the same bits as an all_reduce. Asynchronous training: each worker takes its
// next batch from server 0 when it has finished the previous one, and each gradient is a step of its own.
#pragma once

#include <memory>

#include "engine/comm/parameters/parameter_client.h"
#include "trainer/parameter_server/server_plan.h"
#include "trainer/steps/step_runner.h"

namespace mtf {

/// Connects to the servers. `executor` runs plan.program on the worker's `variables`; the chief (worker 0)
/// has all variables of the servers. All arguments must outlive the result.
std::unique_ptr<StepRunner> steps_with_servers(const Session& session, const ParameterServerPlan& plan,
                                               Executor& executor, VariableStore& variables);

/// Runs a worker of asynchronous training that is not the chief: it processes batches until there are no
/// more. Returns the exit code.
int work_asynchronously(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
