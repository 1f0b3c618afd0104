// The section `cluster` of a configuration, which says how several processes find each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace mtf {

enum class Launcher { kAuto, kNone, kTorchrun, kOpenMpi, kPmi, kSlurm, kKubernetes, kTfConfig };

/// The names of jobs with the host:port of each task, in the order in which they are written.
using Jobs = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct ClusterOptions {
  Launcher launcher = Launcher::kAuto;  ///< the launcher whose environment variables are used
  std::optional<std::string> address;   ///< host:port where the processes meet
  std::optional<int64_t> processes;
  std::optional<int64_t> process;  ///< rank of this process
  Jobs jobs;
  std::optional<std::string> job;
  int64_t task = 0;
  std::optional<std::string> secret_file;
  bool insecure = false;
  double connect_timeout = 300;     ///< seconds
  double collective_timeout = 600;  ///< seconds
  /// The place of each key in the configuration ("address", "jobs.worker.0"); "" is the section itself.
  std::map<std::string, Mark> marks;

  /// Returns the place of a key, or of the innermost key around it whose place is known.
  Mark mark(std::string_view key) const;
};

struct HostPort {
  std::string host;
  int port = 0;

  bool is_loopback() const;
};

/// Parses "10.0.0.1:29500", "node-a:29500" or "[::1]:29500"; returns nothing for other texts.
std::optional<HostPort> parse_host_port(std::string_view text);
/// Returns "10.0.0.1:29500" or "[::1]:29500".
std::string to_string(const HostPort& address);

/// Reports invalid addresses, jobs and tasks that do not exist, and keys that contradict each other.
void check_cluster(const ClusterOptions& options, Diagnostics& diagnostics);

}  // namespace mtf
