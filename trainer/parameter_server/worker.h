// A worker of a run with parameter servers: it computes gradients and pushes them to the servers, which
// update the variables, and pulls these.
//
// Synchronous: the workers run one program over all their positions and a step is the sum of their gradients,
// with the bits of an all_reduce. Asynchronous: each worker takes a batch from server 0 when it is done with
// the one before, and its gradient is a step of its own.
#pragma once

#include <memory>

#include "engine/comm/parameters/parameter_client.h"
#include "trainer/parameter_server/server_plan.h"
#include "trainer/steps/step_runner.h"

namespace mtf {

/// `executor`: of plan.program. `variables`: of the worker; the chief (worker 0) has all that the servers
/// have. Connects to the servers. All three outlive it.
std::unique_ptr<StepRunner> steps_with_servers(const Session& session, const ParameterServerPlan& plan,
                                               Executor& executor, VariableStore& variables);

/// The run of a worker in asynchronous training that is not the chief: it works on batches until there are no
/// more. The exit code.
int work_asynchronously(Session& session, Diagnostics& diagnostics);

}  // namespace mtf
