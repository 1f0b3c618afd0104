#include "engine/comm/launch/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/launch/complete_launch.h"
#include "engine/comm/launch/launched_process.h"
#include "engine/comm/launch/launcher_environment.h"
#include "engine/comm/launch/named_task.h"
#include "engine/comm/launch/tf_config.h"

namespace mtf {
namespace {

std::string_view name_of(Launcher launcher) {
  return launcher == Launcher::kTfConfig ? "TF_CONFIG" : variables_of(launcher).name;
}

class Detection {
 public:
  Detection(const ClusterOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}

  Launch run() const {
    if (options_.processes == 1) return launch_alone("`cluster.processes`");
    if (options_.job)
      return named_task(options_, options_.jobs, *options_.job, options_.task, "`cluster.jobs`", false);
    if (options_.process) return explicit_process();
    if (options_.launcher == Launcher::kNone) return none();
    if (!options_.jobs.empty()) {
      const auto& [name, tasks] = options_.jobs.front();
      throw Error(ErrorKind::kConfig, options_.mark("jobs"),
                  "`cluster.jobs` is given, and nothing says which of its tasks this process is",
                  fmt::format("`cluster.job={} cluster.task=0`, or {}", name, kAloneHint));
    }
    for (const LauncherVariables& variables : all_launcher_variables())
      if (wanted(variables.launcher) && is_complete(variables))
        return launched_process(options_, environment_, variables);
    if (wanted(Launcher::kTfConfig))
      if (const std::string* text = environment_.find("TF_CONFIG"))
        if (const auto config = parse_tf_config(*text))
          return named_task(options_, config->jobs, config->type, config->index, "TF_CONFIG", true);
    return no_launcher();
  }

 private:
  bool wanted(Launcher launcher) const {
    return options_.launcher == Launcher::kAuto || options_.launcher == launcher;
  }

  bool is_complete(const LauncherVariables& variables) const {
    return environment_.has_rank(variables) && (options_.processes || environment_.find(variables.size));
  }

  Launch none() const {
    if (!options_.processes) return launch_alone("`cluster.launcher: none`");
    throw Error(ErrorKind::kConfig, options_.mark("processes"),
                fmt::format("nothing says which of {} processes (`cluster.processes`) this is, as "
                            "`cluster.launcher` is none",
                            *options_.processes),
                "`cluster.process=0`");
  }

  Launch explicit_process() const {
    Launch launch;
    launch.rank = static_cast<int>(*options_.process);
    launch.size = static_cast<int>(*options_.processes);
    meet_at(launch, *parse_host_port(*options_.address));
    complete_launch(launch, "`cluster.process`");
    return launch;
  }

  Launch no_launcher() const {
    for (const LauncherVariables& variables : all_launcher_variables())
      if (wanted(variables.launcher)) check_half(variables);
    if (options_.launcher != Launcher::kAuto) {
      const Launcher launcher = options_.launcher;
      throw Error(ErrorKind::kConfig, options_.mark("launcher"),
                  fmt::format("`cluster.launcher` is {}, and its environment variables ({}) are not set",
                              name_of(launcher), expected(launcher)),
                  fmt::format("start the program with it, or {}", kAloneHint));
    }
    if (options_.processes) {
      throw Error(ErrorKind::kConfig, options_.mark("processes"),
                  fmt::format("nothing says which of {} processes (`cluster.processes`) this is",
                              *options_.processes),
                  fmt::format("`cluster.process=0`, a launcher such as `mtf-launch -n {}`, or "
                              "`cluster.processes=1`",
                              *options_.processes));
    }
    if (options_.address) {
      throw Error(
          ErrorKind::kConfig, options_.mark("address"),
          "`cluster.address` is given, and nothing says how many processes there are and which this is",
          fmt::format("`cluster.processes` and `cluster.process`, a launcher, or {}", kAloneHint));
    }
    return launch_alone({});
  }

  void check_half(const LauncherVariables& variables) const {
    const bool kubernetes = variables.launcher == Launcher::kKubernetes;
    const bool rank = environment_.has_rank(variables), size = environment_.find(variables.size);
    // Kubernetes also numbers the pods of indexed jobs that do not compute together, and Slurm counts tasks
    // in shells as well.
    if (kubernetes && options_.launcher == Launcher::kAuto && !environment_.find("MASTER_ADDR")) return;
    if (rank) reject_half(variables.rank, variables.size);
    if (size && !kubernetes && variables.launcher != Launcher::kSlurm)
      reject_half(variables.size, variables.rank);
  }

  static std::string expected(Launcher launcher) {
    if (launcher == Launcher::kTfConfig) return "TF_CONFIG";
    const LauncherVariables& variables = variables_of(launcher);
    return fmt::format("{}, {}{}", variables.rank, variables.size,
                       launcher == Launcher::kSlurm ? ", SLURM_STEP_ID" : "");
  }

  const ClusterOptions& options_;
  const LauncherEnvironment environment_;
};

}  // namespace

Environment environment_of_process() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment without_launcher(Environment environment) {
  std::vector<std::string_view> names{"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE",
                                      "TF_CONFIG", kStoreVariable};
  for (const LauncherVariables& variables : all_launcher_variables())
    for (const std::string_view name :
         {variables.rank, variables.size, variables.local_rank, variables.local_size})
      names.push_back(name);
  for (const std::string_view name : names) environment.erase(std::string(name));
  return environment;
}

static int restarts_of(const Environment& environment) {
  const LauncherEnvironment variables(environment);
  for (const char* name : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"})
    if (const std::optional<int64_t> count = variables.number(name)) return static_cast<int>(*count);
  return 0;
}

Launch detect_launch(const ClusterOptions& options, const Environment& environment) {
  Diagnostics diagnostics;
  check_cluster(options, diagnostics);
  diagnostics.throw_if_errors();
  Launch launch = Detection(options, environment).run();
  launch.restarts = restarts_of(environment);
  return launch;
}

}  // namespace mtf
