// Starts several copies of a program on this machine that connect to each other, for `mtf-launch`.
//
//   return launch({.processes = 4, .restarts = 3, .command = {"mtf-train", "run.yaml"}});
//   return launch({.jobs = {{"ps", 1}, {"worker", 2}}, .command = {"mtf-train", "run.yaml"}});
//
// Each rank gets the environment variables RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT (of a store that is served here, therefore TORCHELASTIC_USE_AGENT_STORE=True and MTF_STORE).
// Each task of a job gets TF_CONFIG. All get MTF_SECRET, TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trainer/programs/launch/tasks.h"

namespace mtf {

struct LaunchCommand {
  int processes = 1;  ///< number of ranks, if there are no jobs
  JobSizes jobs;
  int restarts = 0;
  std::chrono::seconds grace{10};    ///< time between SIGTERM and SIGKILL after a failure
  std::vector<std::string> command;  ///< program and arguments
};

/// Runs the program until all processes have ended. After the first failure the other processes are ended,
/// too. Then all are restarted if `restarts` allows it, but not after exit codes 2 (wrong usage or
/// configuration) and 3 (diverged), which would occur again. Returns the exit code of the process that failed
/// first (128 + the number of the signal that killed it), or 127 or 126 if the program does not exist or
/// cannot be run. A process that ends with 75 (it has lost a peer) does not count as the first if another one
/// fails at about the same time.
///
/// Tasks of the job `ps` are ended when all others have ended. If those have succeeded, the whole launch has.
///
/// Lines of output are prefixed with the rank, "[2] ", or the task, "[worker:1] ". SIGINT, SIGTERM and SIGHUP
/// are passed on. Standard input goes to rank 0, or with jobs to the chief or the first worker. Throws Error:
/// kSystem, or kUsage if all jobs are `ps`.
int launch(const LaunchCommand& command);

}  // namespace mtf
