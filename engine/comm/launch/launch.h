// Detects the rank of this process, the number of processes, and the address where they meet, from the
// configuration or from the environment variables of a launcher.
//
//   const Launch launch = detect_launch(options, environment_of_process());
//   log(launch.source);
//   // "process 2 of 4 (torchrun: RANK, WORLD_SIZE); meets the others at 10.0.0.1:29500"
//
// The sources are tried in this order: section `cluster`, torchrun and mtf-launch (RANK, WORLD_SIZE, ...),
// OpenMPI, PMI, Slurm, Kubernetes (index variables of indexed jobs), TF_CONFIG, one process. The first
// complete set of values decides.
#pragma once

#include <map>
#include <string>

#include "engine/comm/launch/cluster_options.h"

namespace mtf {

using Environment = std::map<std::string, std::string>;

/// Returns the environment variables of this process.
Environment environment_of_process();
/// The variable that mtf-launch sets to the HOST:PORT of its store. TORCHELASTIC_USE_AGENT_STORE is set both
/// for it and for torchrun's store.
inline constexpr const char* kStoreVariable = "MTF_STORE";
/// Returns `environment` without the variables that say which process this is and where the others are, for a
/// process that gets new ones.
Environment without_launcher(Environment environment);

struct Launch {
  int rank = 0;
  int size = 1;  ///< number of processes that compute
  /// The rank and number among the processes on this machine, as the launcher says, or counted by equal hosts
  /// of the tasks. If neither is known, all processes are on this machine if they meet at its loopback
  /// address; otherwise this process counts as alone.
  int local_rank = 0;
  int local_size = 1;
  std::string host;  ///< host of the rendezvous store; empty if there is one process
  int port = 0;
  bool store_is_served = false;  ///< true if the launcher serves the store; otherwise process 0 does
  /// True if the store only admits processes that know the run's secret; torchrun's store cannot do so.
  bool store_authenticates = true;
  std::string job;  ///< identifies the run if several use one store; prefix of all keys
  /// The job in section `cluster` or TF_CONFIG: "worker", "chief", "ps", "evaluator", or any other name.
  std::string role = "worker";
  int task = 0;  ///< index of the task in its job
  /// False for a `ps`, and for the `evaluator` of TF_CONFIG: it is not one of the `size` processes and has no
  /// rank (-1).
  bool computes = true;
  /// How often a launcher has restarted the processes after a failure (mtf-launch, torchrun, Slurm).
  int restarts = 0;
  Jobs jobs;           ///< all tasks, if section `cluster` or TF_CONFIG names them
  std::string source;  ///< describes, for the log, what decided

  bool several() const { return size > 1; }
};

/// Detects the launch; a pure function of its arguments. Throws Error (kConfig with the place in the
/// configuration, or kUsage for the environment) if a set of variables is incomplete, if values are not
/// numbers or out of range, or if the address where the processes meet is unknown.
Launch detect_launch(const ClusterOptions& options, const Environment& environment);

}  // namespace mtf
