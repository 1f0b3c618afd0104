// Section `cluster` of a configuration: how several processes find each other.
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

/// Names of jobs with host:port of each task, in the order of writing.
using Jobs = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct ClusterOptions {
  Launcher launcher = Launcher::kAuto;  ///< whose environment variables count
  std::optional<std::string> address;   ///< host:port at which the processes meet
  std::optional<int64_t> processes;
  std::optional<int64_t> process;  ///< rank of this one
  Jobs jobs;
  std::optional<std::string> job;
  int64_t task = 0;
  std::optional<std::string> secret_file;
  bool insecure = false;
  double connect_timeout = 300;     ///< seconds
  double collective_timeout = 600;  ///< seconds
  /// Where the keys stand, for messages: by name ("address", "jobs.worker.0"); "" is the section.
  std::map<std::string, Mark> marks;

  /// The place of a key, or of the innermost one around it that is known.
  Mark mark(std::string_view key) const;
};

struct HostPort {
  std::string host;
  int port = 0;

  bool is_loopback() const;
};

/// "10.0.0.1:29500", "node-a:29500", "[::1]:29500"; nothing for other texts.
std::optional<HostPort> parse_host_port(std::string_view text);
/// "10.0.0.1:29500", "[::1]:29500".
std::string to_string(const HostPort& address);

/// Reports addresses that are none, jobs and tasks that do not exist, and keys that do not fit together.
void check_cluster(const ClusterOptions& options, Diagnostics& diagnostics);

}  // namespace mtf
