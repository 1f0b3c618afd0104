// Several copies of a program on this machine that find each other: what `mtf-launch` does.
//
//   return launch({.processes = 4, .restarts = 3, .command = {"mtf-train", "run.yaml"}});
//   return launch({.jobs = {{"ps", 1}, {"worker", 2}}, .command = {"mtf-train", "run.yaml"}});
//
// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (of a store that
// is served here, hence TORCHELASTIC_USE_AGENT_STORE=True and MTF_STORE), each task of a job TF_CONFIG; all
// get MTF_SECRET, TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trainer/programs/launch/tasks.h"

namespace mtf {

struct LaunchCommand {
  int processes = 1;  ///< without jobs
  JobSizes jobs;
  int restarts = 0;
  std::chrono::seconds grace{10};    ///< between SIGTERM and SIGKILL for those that are left after a failure
  std::vector<std::string> command;  ///< program and arguments
};

/// Runs the program until all have ended. After the first failure the others are ended, too, and then all are
/// started again where `restarts` allows it: not after exit codes 2 (wrong usage or configuration) and 3
/// (diverged), which would come again. Returns the exit code of the one that failed first (128 + the number
/// of the signal that killed it), 127 and 126 when the program is not there or cannot be run. A rank that
/// ends with 75 (it has lost a peer) has not failed first where another has failed about that time.
///
/// Tasks of the job `ps` are ended when all others have ended: if those have ended well, all has.
///
/// Lines of output get the rank in front, "[2] ", or the task, "[worker:1] ". SIGINT, SIGTERM and SIGHUP are
/// passed on. Standard input goes to rank 0, with jobs to the chief or the first worker. Throws Error
/// (kSystem; kUsage where all jobs are `ps`).
int launch(const LaunchCommand& command);

}  // namespace mtf
