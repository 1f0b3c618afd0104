// The tasks that mtf-launch starts, with the environment variables that identify each of them.
//
//   const std::vector<Task> ranks = rank_tasks(4, store.port());              // RANK, WORLD_SIZE, ...
//   const std::vector<Task> tasks = job_tasks({{"ps", 1}, {"worker", 2}}, ports.numbers());   // TF_CONFIG
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/comm/launch/launch.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

/// The names of jobs and the numbers of their tasks, in the order of the command line.
using JobSizes = std::vector<std::pair<std::string, int>>;

struct Task {
  std::string name;         ///< name in messages: "rank 2", "worker 1"
  std::string prefix;       ///< prefix of its lines: "[2] ", "[worker:1] "
  Environment environment;  ///< the variables that are set for this task
  bool is_first = false;    ///< true for process 0, which gets standard input
  bool serves = false;      ///< true for a server, which is ended when the other tasks have ended
};

/// Ports of this machine that no other program gets during the lifetime of this object. They are bound here
/// with SO_REUSEADDR, so a task that sets this option, too, can listen at one.
class ReservedPorts {
 public:
  /// Reserves `count` ports. Throws Error (kSystem).
  explicit ReservedPorts(int count);
  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<Socket> sockets_;
  std::vector<int> numbers_;
};

/// Returns ranks that connect by the environment variables of torchrun and a TcpStoreServer at `port`.
std::vector<Task> rank_tasks(int processes, int port);
/// Returns tasks that connect by TF_CONFIG, with one of `ports` each. Throws Error (kUsage) if all jobs are
/// servers.
std::vector<Task> job_tasks(const JobSizes& jobs, const std::vector<int>& ports);

}  // namespace mtf
