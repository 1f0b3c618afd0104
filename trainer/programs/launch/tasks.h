// The processes that mtf-launch starts, and how each is told which one it is.
//
//   const std::vector<Task> ranks = rank_tasks(4, store.port());              // RANK, WORLD_SIZE, ...
//   const std::vector<Task> tasks = job_tasks({{"ps", 1}, {"worker", 2}}, ports);           // TF_CONFIG
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/comm/launch/launch.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

/// Names of jobs with the number of their tasks, in the order of writing.
using JobSizes = std::vector<std::pair<std::string, int>>;

struct Task {
  std::string name;         ///< in messages: "rank 2", "worker 1"
  std::string prefix;       ///< of its lines: "[2] ", "[worker:1] "
  Environment environment;  ///< its own part
  bool is_first = false;    ///< process 0, to which a person speaks
  bool serves = false;      ///< the others, and has nothing to do when they have ended
};

/// Ports of this machine that no other program gets as long as this lives. A task may listen at one, as it is
/// bound here with SO_REUSEADDR, which the task must set, too.
class ReservedPorts {
 public:
  /// Throws Error (kSystem).
  explicit ReservedPorts(int count);
  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<Socket> sockets_;
  std::vector<int> numbers_;
};

/// Ranks that find each other by the variables of torchrun, at a TcpStoreServer at `port`.
std::vector<Task> rank_tasks(int processes, int port);
/// Tasks that find each other by TF_CONFIG, with one of `ports` each. Throws Error (kUsage) where no job
/// computes.
std::vector<Task> job_tasks(const JobSizes& jobs, const std::vector<int>& ports);

}  // namespace mtf
