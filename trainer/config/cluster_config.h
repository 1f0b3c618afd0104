// Section `cluster` of a configuration: which processes there are, and how long they wait for each other.
//
//   const Launch launch = detect_launch(cluster_options(config), environment_of_process());
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/launch/cluster_options.h"
#include "engine/comm/security/access.h"
#include "engine/config/schema.h"

namespace mtf {

struct Config;

enum class Collectives { kAuto, kGloo, kNccl };
enum class WithinMachine { kMemory, kSockets };

struct ClusterConfig {
  Collectives collectives = Collectives::kAuto;
  WithinMachine within_machine = WithinMachine::kMemory;
  Launcher launcher = Launcher::kAuto;
  std::optional<std::string> address;
  std::optional<int64_t> processes;
  std::optional<int64_t> process;
  config::Named<std::vector<std::string>> jobs;
  std::optional<std::string> job;
  int64_t task = 0;
  std::optional<config::Path> secret_file;
  bool insecure = false;
  config::Duration connect_timeout{300};
  config::Duration collective_timeout{600};
  bool overlap = true;
  config::Auto<config::Bytes> overlap_memory;
};

void describe(config::Visitor& visit, ClusterConfig& options);

inline config::EnumNames enum_names(Collectives) {
  return {{"auto", Collectives::kAuto}, {"gloo", Collectives::kGloo}, {"nccl", Collectives::kNccl}};
}
inline config::EnumNames enum_names(WithinMachine) {
  return {{"memory", WithinMachine::kMemory}, {"sockets", WithinMachine::kSockets}};
}
inline config::EnumNames enum_names(Launcher) {
  return {{"auto", Launcher::kAuto},
          {"none", Launcher::kNone},
          {"torchrun", Launcher::kTorchrun},
          {"openmpi", Launcher::kOpenMpi},
          {"pmi", Launcher::kPmi},
          {"slurm", Launcher::kSlurm},
          {"kubernetes", Launcher::kKubernetes},
          {"tf_config", Launcher::kTfConfig}};
}

/// With the places of the keys.
ClusterOptions cluster_options(const Config& config);
/// By MTF_SECRET in the environment or `cluster.secret_file`; see find_access().
Access cluster_access(const Config& config);
/// What is to be said of a run that lets anybody in; empty: it does not.
std::string insecure_warning(const Access& access, const std::string& address);
/// A timeout in milliseconds; what is below one is cut off.
std::chrono::milliseconds in_milliseconds(const config::Duration& timeout);

/// What holds for every start of a run: who the processes are is a matter of one start, and a run's
/// config.yaml does not say it.
ClusterConfig without_processes(const ClusterConfig& cluster);

}  // namespace mtf
