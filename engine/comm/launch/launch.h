// Which process of how many this is, and where the others meet: from the configuration or from what a
// launcher has put into the environment.
//
//   const Launch launch = detect_launch(options, environment_of_process());
//   log(launch.source);    // "process 2 of 4 (torchrun: RANK, WORLD_SIZE); meets the others
//   at 10.0.0.1:29500"
//
// Order: section `cluster` > torchrun and mtf-launch (RANK, WORLD_SIZE, ...) > OpenMPI > PMI > Slurm >
// Kubernetes (index variables of indexed jobs) > TF_CONFIG > one process. The first complete set decides.
#pragma once

#include <map>
#include <string>

#include "engine/comm/launch/cluster_options.h"

namespace mtf {

using Environment = std::map<std::string, std::string>;

/// The environment variables of this process.
Environment environment_of_process();
/// Set by mtf-launch to the HOST:PORT of its store, which is no store of torchrun's though both say so in
/// TORCHELASTIC_USE_AGENT_STORE.
inline constexpr const char* kStoreVariable = "MTF_STORE";
/// `environment` without what says which process this is and where the others are: for one that is told anew.
Environment without_launcher(Environment environment);

struct Launch {
  int rank = 0;
  int size = 1;  ///< processes that compute
  /// Among the processes of this machine: as the launcher says, or counted by equal hosts of the tasks. Where
  /// neither says, all are on this machine if they meet at its loopback address, and else this one is alone.
  int local_rank = 0;
  int local_size = 1;
  std::string host;  ///< of the store; empty: there is one process
  int port = 0;
  bool store_is_served = false;  ///< by the launcher; else process 0 serves it
  /// It lets in only those who know the run's secret; false: it is served by torchrun, which cannot.
  bool store_authenticates = true;
  std::string job;  ///< tells runs apart that use one store; prefix of all keys
  /// Job of section `cluster` or TF_CONFIG: "worker", "chief", "ps", "evaluator"; any other name.
  std::string role = "worker";
  int task = 0;  ///< index in the job
  /// False for a `ps`, and for the `evaluator` of TF_CONFIG: not one of the `size` processes, and without a
  /// rank (-1).
  bool computes = true;
  /// Times that a launcher has started the processes again after a failure (mtf-launch, torchrun, Slurm).
  int restarts = 0;
  Jobs jobs;           ///< all tasks, where section `cluster` or TF_CONFIG names them
  std::string source;  ///< what decided, in words, for the log

  bool several() const { return size > 1; }
};

/// A pure function. Throws Error (kConfig, with the place in the configuration, or kUsage for the
/// environment) where a set of variables is only half there, has values that are no numbers or out of range,
/// or where nothing says at which address the processes meet.
Launch detect_launch(const ClusterOptions& options, const Environment& environment);

}  // namespace mtf
