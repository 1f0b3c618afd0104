#include "engine/comm/launch/launched_process.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/comm/launch/complete_launch.h"
#include "engine/comm/launch/slurm_nodes.h"

namespace mtf {
namespace {

/// Ports that are derived from the job. They are below those that systems use for outgoing connections (from
/// 32768).
constexpr int64_t kFirstPort = 20'000, kPorts = 12'000;

class LaunchedProcess {
 public:
  LaunchedProcess(const ClusterOptions& options, const LauncherEnvironment& environment)
      : options_(options), environment_(environment) {}

  Launch run(const LauncherVariables& variables) const {
    const std::string_view size_name = environment_.size_variable(variables);
    const auto size = environment_.number(size_name);
    if (size && options_.processes && *size != *options_.processes) {
      throw Error(
          ErrorKind::kConfig, options_.mark("processes"),
          fmt::format("`cluster.processes` is {}, and {} says {}", *options_.processes, size_name, *size),
          fmt::format("{}, or nothing", *size));
    }
    Launch launch;
    const int64_t rank = *environment_.number(variables.rank), processes = size ? *size : *options_.processes;
    if (processes < 1)
      reject_environment(fmt::format("the environment variable {} is 0", size_name), "a number from 1");
    if (rank >= processes)
      reject_environment(fmt::format("the environment variable {} is {}, and {} is {}", variables.rank, rank,
                                     size ? size_name : "`cluster.processes`", processes),
                         fmt::format("ranks are 0 to {}", processes - 1));
    check_other_rank(variables, rank, processes);
    launch.rank = static_cast<int>(rank);
    launch.size = static_cast<int>(processes);
    const std::string reason =
        fmt::format("{}: {}, {}", title(variables), variables.rank, size ? size_name : "`cluster.processes`");
    if (processes == 1) return launch_alone(reason);
    set_local(launch, variables);
    launch.job = job_of(variables);
    find_address(launch, variables);
    complete_launch(launch, reason);
    return launch;
  }

 private:
  std::string title(const LauncherVariables& variables) const {
    if (variables.launcher != Launcher::kTorchrun) return std::string(variables.name);
    const std::string* run = environment_.find("TORCHELASTIC_RUN_ID");
    return !run ? "environment" : run->starts_with("mtf-launch") ? "mtf-launch" : "torchrun";
  }

  /// If RANK or WORLD_SIZE is set beside another launcher's variables, it must have the same value.
  void check_other_rank(const LauncherVariables& variables, int64_t rank, int64_t processes) const {
    if (variables.launcher == Launcher::kTorchrun || options_.launcher != Launcher::kAuto) return;
    for (const auto& [name, value] : {std::pair{"RANK", rank}, std::pair{"WORLD_SIZE", processes}}) {
      const std::string* text = environment_.find(name);
      if (!text || *text == std::to_string(value)) continue;
      reject_environment(fmt::format("the environment variable {} is `{}`, and {} says {}", name, *text,
                                     variables.name, value),
                         fmt::format("unset {}, or `cluster.launcher` says whose variables count", name));
    }
  }

  /// True if Slurm's variables agree with the launch: with `srun --mpi=pmi2`, PMI numbers the processes and
  /// Slurm those of a machine.
  bool has_local_of_slurm(const Launch& launch, const LauncherVariables& slurm) const {
    return environment_.is_slurm_step() && environment_.number(slurm.rank) == launch.rank &&
           environment_.number(environment_.size_variable(slurm)) == launch.size;
  }

  void set_local(Launch& launch, const LauncherVariables& variables) const {
    if (variables.launcher == Launcher::kPmi && !environment_.find(variables.local_rank)) {
      const LauncherVariables& slurm = variables_of(Launcher::kSlurm);
      if (has_local_of_slurm(launch, slurm)) return set_local(launch, slurm);
    }
    const int64_t rank = environment_.number(variables.local_rank).value_or(0);
    int64_t size = environment_.number(variables.local_size).value_or(rank + 1);
    if (variables.launcher == Launcher::kSlurm) {
      const std::string* counts = environment_.find("SLURM_STEP_TASKS_PER_NODE");
      if (!counts) counts = environment_.find("SLURM_TASKS_PER_NODE");
      if (counts)
        size = tasks_on_node(*counts, environment_.number("SLURM_NODEID").value_or(0)).value_or(size);
    }
    if (rank >= size || size > launch.size)
      reject_environment(fmt::format("this is process {} of {} of this machine by {}, and {} of {} of all",
                                     rank, size, variables.name, launch.rank, launch.size),
                         fmt::format("right values of {}", variables.local_rank));
    launch.local_rank = static_cast<int>(rank);
    launch.local_size = static_cast<int>(size);
  }

  std::string job_of(const LauncherVariables& variables) const {
    std::string job;
    for (const std::string_view name : variables.job)
      if (const std::string* text = environment_.find(name)) job += (job.empty() ? "" : ".") + *text;
    return job;
  }

  void find_address(Launch& launch, const LauncherVariables& variables) const {
    if (options_.address) return meet_at(launch, *parse_host_port(*options_.address));
    const std::string* host = environment_.find("MASTER_ADDR");
    const std::string* port = environment_.find("MASTER_PORT");
    if (host && port) {
      std::string_view name = *host;
      if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
      const std::string address = to_string(HostPort{std::string(name), 1});
      const auto parsed = parse_host_port(address.substr(0, address.size() - 1) + *port);
      if (!parsed)
        reject_environment(
            fmt::format("the environment variables MASTER_ADDR and MASTER_PORT are `{}` and `{}`", *host,
                        *port),
            "a host, and a port from 1 to 65535");
      meet_at(launch, *parsed);
      const std::string* served = environment_.find("TORCHELASTIC_USE_AGENT_STORE");
      launch.store_is_served = variables.launcher == Launcher::kTorchrun && served && *served == "True";
      const std::string* own = environment_.find(kStoreVariable);
      launch.store_authenticates = !launch.store_is_served || (own && *own == to_string(*parsed));
      return;
    }
    if (host || port) reject_half(host ? "MASTER_ADDR" : "MASTER_PORT", host ? "MASTER_PORT" : "MASTER_ADDR");
    if (is_torch(variables)) reject_half(std::string(variables.rank), "MASTER_ADDR");
    derive_address(launch, variables);
  }

  /// True for launchers that pass on their own address.
  static bool is_torch(const LauncherVariables& variables) {
    return variables.launcher == Launcher::kTorchrun || variables.launcher == Launcher::kKubernetes;
  }

  /// Sets the address to the first host of Slurm's job, or to the loopback address if all processes are on
  /// this machine.
  void derive_address(Launch& launch, const LauncherVariables& variables) const {
    const std::string* nodes = environment_.find("SLURM_STEP_NODELIST");
    if (!nodes || variables.launcher != Launcher::kSlurm) nodes = environment_.find("SLURM_JOB_NODELIST");
    const bool slurm = nodes && environment_.find("SLURM_JOB_ID");
    if (launch.local_size == launch.size) {
      launch.host = "127.0.0.1";
    } else if (slurm) {
      const auto first = first_node(*nodes);
      if (!first)
        reject_environment(fmt::format("`{}` of Slurm's environment variables is no list of nodes", *nodes),
                           "`cluster.address=HOST:PORT`");
      launch.host = *first;
    } else {
      reject_environment(
          fmt::format("{} and {} do not say where the processes meet", variables.rank, variables.size),
          "`cluster.address=HOST:PORT`, or the environment variables MASTER_ADDR and MASTER_PORT in all "
          "processes");
    }
    launch.port = static_cast<int>(kFirstPort + port_offset(launch) % kPorts);
  }

  /// Returns an offset that is derived from Slurm's job and step, so that users can compute it, or otherwise
  /// from the launcher's name of the job.
  int64_t port_offset(const Launch& launch) const {
    const auto id = [this](std::string_view name) {
      return environment_.number(name, LauncherEnvironment::kMostSlurmId);
    };
    if (const auto job = id("SLURM_JOB_ID"))
      return *job + (environment_.is_slurm_step() ? *id("SLURM_STEP_ID") : 0);
    return static_cast<int64_t>(hash64(launch.job) % kPorts);
  }

  const ClusterOptions& options_;
  const LauncherEnvironment& environment_;
};

}  // namespace

Launch launched_process(const ClusterOptions& options, const LauncherEnvironment& environment,
                        const LauncherVariables& variables) {
  return LaunchedProcess(options, environment).run(variables);
}

}  // namespace mtf
