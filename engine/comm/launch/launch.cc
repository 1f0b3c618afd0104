#include "engine/comm/launch/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/comm/launch/slurm_nodes.h"
#include "engine/comm/launch/tf_config.h"
#include "engine/core/hash.h"

namespace mtf {
namespace {

constexpr int64_t kMostProcesses = 1'000'000;
/// Ports that are derived from a job: below those that systems give to outgoing connections (from 32768).
constexpr int64_t kFirstPort = 20'000, kPorts = 12'000;
constexpr std::string_view kAlone = "`cluster.launcher: none` for one process";

/// The variables of a launcher. Empty: it has none for this.
struct Variables {
  Launcher launcher;
  std::string_view name;
  std::string_view rank, size, local_rank, local_size;
  std::vector<std::string_view> job;  ///< what tells its jobs apart: those that are set
};

const std::array<Variables, 5>& all_variables() {
  static const std::array<Variables, 5> variables{{
      {Launcher::kTorchrun,
       "torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
      {Launcher::kOpenMpi,
       "OpenMPI",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       {"PMIX_NAMESPACE"}},
      {Launcher::kPmi, "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {"PMI_JOBID"}},
      {Launcher::kSlurm,
       "Slurm",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       "SLURM_LOCALID",
       "",
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {Launcher::kKubernetes, "Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", "", {}},
  }};
  return variables;
}

std::string_view name_of(Launcher launcher) {
  for (const Variables& variables : all_variables())
    if (variables.launcher == launcher) return variables.name;
  return "TF_CONFIG";
}

bool is_server(std::string_view job) { return job == "ps"; }

/// Jobs whose tasks compute, in the order of ranks: chief, worker, and the others as they are written.
std::vector<const Jobs::value_type*> computing_jobs(const Jobs& jobs, bool tensorflow) {
  std::vector<const Jobs::value_type*> result;
  for (const auto& job : jobs)
    if (!is_server(job.first) && !(tensorflow && job.first == "evaluator")) result.push_back(&job);
  std::ranges::stable_sort(result, {}, [tensorflow](const Jobs::value_type* job) {
    const bool first = job->first == "chief" || (tensorflow && job->first == "master");
    return first ? 0 : job->first == "worker" ? 1 : 2;
  });
  return result;
}

class Detection {
 public:
  Detection(const ClusterOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}

  Launch run() const {
    if (options_.processes == 1) return alone("`cluster.processes`");
    if (options_.job) return task_of(options_.jobs, *options_.job, options_.task, "`cluster.jobs`", false);
    if (options_.process) return explicit_process();
    if (options_.launcher == Launcher::kNone) return none();
    if (!options_.jobs.empty()) {
      const auto& [name, tasks] = options_.jobs.front();
      throw Error(ErrorKind::kConfig, options_.mark("jobs"),
                  "`cluster.jobs` is given, and nothing says which of its tasks this process is",
                  fmt::format("`cluster.job={} cluster.task=0`, or {}", name, kAlone));
    }
    for (const Variables& variables : all_variables())
      if (wanted(variables.launcher) && is_complete(variables)) return launched_by(variables);
    if (wanted(Launcher::kTfConfig))
      if (const std::string* text = find("TF_CONFIG"))
        if (const auto config = parse_tf_config(*text))
          return task_of(config->jobs, config->type, config->index, "TF_CONFIG", true);
    return no_launcher();
  }

 private:
  bool wanted(Launcher launcher) const {
    return options_.launcher == Launcher::kAuto || options_.launcher == launcher;
  }

  /// An empty variable counts as none.
  const std::string* find(std::string_view name) const {
    const auto found = environment_.find(std::string(name));
    return found == environment_.end() || found->second.empty() ? nullptr : &found->second;
  }

  [[noreturn]] static void reject(std::string message, std::string hint) {
    throw Error(ErrorKind::kUsage, std::move(message), std::move(hint));
  }

  /// A whole number from 0; nothing where the variable is not set.
  std::optional<int64_t> number(std::string_view name) const {
    const std::string* text = find(name);
    if (!text) return std::nullopt;
    int64_t number = 0;
    const auto [rest, failure] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (failure != std::errc() || rest != text->data() + text->size() || number < 0 ||
        number > kMostProcesses)
      reject(fmt::format("the environment variable {} is `{}`", name, *text),
             fmt::format("a whole number from 0 to {}, or {}", kMostProcesses, kAlone));
    return number;
  }

  static Launch alone(std::string_view reason) {
    Launch launch;
    launch.source = reason.empty() ? "one process" : fmt::format("one process ({})", reason);
    return launch;
  }

  Launch none() const {
    if (!options_.processes) return alone("`cluster.launcher: none`");
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
    finish(launch, "`cluster.process`");
    return launch;
  }

  static void meet_at(Launch& launch, const HostPort& address) {
    launch.host = address.host;
    launch.port = address.port;
  }

  /// Completes local ranks that nobody gave, and says what was decided.
  static void finish(Launch& launch, std::string_view reason) {
    if (launch.local_rank == 0 && launch.local_size == 1 &&
        HostPort{launch.host, launch.port}.is_loopback()) {
      launch.local_rank = launch.rank;
      launch.local_size = launch.size;
    }
    launch.source = fmt::format("process {} of {} ({}); meets the others at {}", launch.rank, launch.size,
                                reason, to_string(HostPort{launch.host, launch.port}));
    if (launch.store_is_served) launch.source += ", which the launcher serves";
  }

  // --- a set of variables ---

  /// Slurm sets some variables in the shell of an allocation and in a batch script, too, which are one
  /// process.
  bool is_slurm_step() const {
    constexpr int64_t kFirstSpecialStep = 0xfffffff0;  // the shell, the batch script, ...
    const std::string* step = find("SLURM_STEP_ID");
    if (!step || !find("SLURM_PROCID")) return false;
    int64_t id = 0;
    std::from_chars(step->data(), step->data() + step->size(), id);
    return id < kFirstSpecialStep;
  }

  bool has_rank(const Variables& variables) const {
    return find(variables.rank) && (variables.launcher != Launcher::kSlurm || is_slurm_step());
  }
  bool is_complete(const Variables& variables) const {
    return has_rank(variables) && (options_.processes || find(variables.size));
  }

  /// The step's own number of tasks, where Slurm gives both.
  std::string_view size_variable(const Variables& variables) const {
    const bool step = variables.launcher == Launcher::kSlurm && find("SLURM_STEP_NUM_TASKS");
    return step ? "SLURM_STEP_NUM_TASKS" : variables.size;
  }

  Launch launched_by(const Variables& variables) const {
    const std::string_view size_name = size_variable(variables);
    const auto size = number(size_name);
    if (size && options_.processes && *size != *options_.processes) {
      throw Error(
          ErrorKind::kConfig, options_.mark("processes"),
          fmt::format("`cluster.processes` is {}, and {} says {}", *options_.processes, size_name, *size),
          fmt::format("{}, or nothing", *size));
    }
    Launch launch;
    const int64_t rank = *number(variables.rank), processes = size ? *size : *options_.processes;
    if (processes < 1) reject(fmt::format("the environment variable {} is 0", size_name), "a number from 1");
    if (rank >= processes)
      reject(fmt::format("the environment variable {} is {}, and {} is {}", variables.rank, rank,
                         size ? size_name : "`cluster.processes`", processes),
             fmt::format("ranks are 0 to {}", processes - 1));
    check_other_rank(variables, rank, processes);
    launch.rank = static_cast<int>(rank);
    launch.size = static_cast<int>(processes);
    const std::string reason =
        fmt::format("{}: {}, {}", title(variables), variables.rank, size ? size_name : "`cluster.processes`");
    if (processes == 1) return alone(reason);
    set_local(launch, variables);
    launch.job = job_of(variables);
    find_address(launch, variables);
    finish(launch, reason);
    return launch;
  }

  std::string title(const Variables& variables) const {
    if (variables.launcher != Launcher::kTorchrun) return std::string(variables.name);
    const std::string* run = find("TORCHELASTIC_RUN_ID");
    return !run ? "environment" : run->starts_with("mtf-launch") ? "mtf-launch" : "torchrun";
  }

  /// RANK or WORLD_SIZE alone, beside another launcher's variables, must at least say the same.
  void check_other_rank(const Variables& variables, int64_t rank, int64_t processes) const {
    if (variables.launcher == Launcher::kTorchrun || options_.launcher != Launcher::kAuto) return;
    for (const auto& [name, value] : {std::pair{"RANK", rank}, std::pair{"WORLD_SIZE", processes}}) {
      const std::string* text = find(name);
      if (!text || *text == std::to_string(value)) continue;
      reject(fmt::format("the environment variable {} is `{}`, and {} says {}", name, *text, variables.name,
                         value),
             fmt::format("unset {}, or `cluster.launcher` says whose variables count", name));
    }
  }

  void set_local(Launch& launch, const Variables& variables) const {
    const int64_t rank = number(variables.local_rank).value_or(0);
    int64_t size = number(variables.local_size).value_or(rank + 1);
    if (variables.launcher == Launcher::kSlurm) {
      const std::string* counts = find("SLURM_STEP_TASKS_PER_NODE");
      if (!counts) counts = find("SLURM_TASKS_PER_NODE");
      if (counts) size = tasks_on_node(*counts, number("SLURM_NODEID").value_or(0)).value_or(size);
    }
    if (rank >= size || size > launch.size)
      reject(fmt::format("this is process {} of {} of this machine by {}, and {} of {} of all", rank, size,
                         variables.name, launch.rank, launch.size),
             fmt::format("right values of {}", variables.local_rank));
    launch.local_rank = static_cast<int>(rank);
    launch.local_size = static_cast<int>(size);
  }

  std::string job_of(const Variables& variables) const {
    std::string job;
    for (const std::string_view name : variables.job)
      if (const std::string* text = find(name)) job += (job.empty() ? "" : ".") + *text;
    return job;
  }

  void find_address(Launch& launch, const Variables& variables) const {
    if (options_.address) return meet_at(launch, *parse_host_port(*options_.address));
    const std::string* host = find("MASTER_ADDR");
    const std::string* port = find("MASTER_PORT");
    if (host && port) {
      const std::string address = to_string(HostPort{*host, 1});
      const auto parsed = parse_host_port(address.substr(0, address.size() - 1) + *port);
      if (!parsed)
        reject(fmt::format("the environment variables MASTER_ADDR and MASTER_PORT are `{}` and `{}`", *host,
                           *port),
               "a host, and a port from 1 to 65535");
      meet_at(launch, *parsed);
      const std::string* served = find("TORCHELASTIC_USE_AGENT_STORE");
      launch.store_is_served = variables.launcher == Launcher::kTorchrun && served && *served == "True";
      return;
    }
    if (host || port) reject_half(host ? "MASTER_ADDR" : "MASTER_PORT", host ? "MASTER_PORT" : "MASTER_ADDR");
    if (is_torch(variables)) reject_half(std::string(variables.rank), "MASTER_ADDR");
    derive_address(launch, variables);
  }

  /// Launchers that hand on an address of their own.
  static bool is_torch(const Variables& variables) {
    return variables.launcher == Launcher::kTorchrun || variables.launcher == Launcher::kKubernetes;
  }

  [[noreturn]] static void reject_half(std::string_view set, std::string_view missing) {
    reject(fmt::format("the environment variable {} is set, and {} is not", set, missing),
           fmt::format("set {} too, or {}", missing, kAlone));
  }

  /// The first host of Slurm's job; the loopback address where all processes are on this machine.
  void derive_address(Launch& launch, const Variables& variables) const {
    const std::string* nodes = find("SLURM_STEP_NODELIST");
    if (!nodes || variables.launcher != Launcher::kSlurm) nodes = find("SLURM_JOB_NODELIST");
    const bool slurm = nodes && find("SLURM_JOB_ID");
    if (launch.local_size == launch.size) {
      launch.host = "127.0.0.1";
    } else if (slurm) {
      const auto first = first_node(*nodes);
      if (!first)
        reject(fmt::format("`{}` of Slurm's environment variables is no list of nodes", *nodes),
               "`cluster.address=HOST:PORT`");
      launch.host = *first;
    } else {
      reject(fmt::format("{} and {} do not say where the processes meet", variables.rank, variables.size),
             "`cluster.address=HOST:PORT`, or the environment variables MASTER_ADDR and MASTER_PORT in all "
             "processes");
    }
    launch.port = static_cast<int>(kFirstPort + port_offset(launch) % kPorts);
  }

  /// By Slurm's job and step, which a person can compute; else by what the launcher calls the job.
  int64_t port_offset(const Launch& launch) const {
    const auto id = [this](std::string_view name) {
      const std::string* text = find(name);
      uint32_t id = 0;
      if (text) std::from_chars(text->data(), text->data() + text->size(), id);
      return static_cast<int64_t>(id);
    };
    if (find("SLURM_JOB_ID")) return id("SLURM_JOB_ID") + (is_slurm_step() ? id("SLURM_STEP_ID") : 0);
    return static_cast<int64_t>(hash64(launch.job) % kPorts);
  }

  // --- tasks by name ---

  Launch task_of(const Jobs& jobs, const std::string& type, int64_t index, std::string_view reason,
                 bool tensorflow) const {
    Launch launch;
    launch.role = type;
    launch.task = static_cast<int>(index);
    launch.jobs = jobs;
    launch.size = 0;
    launch.rank = -1;
    std::vector<std::string> addresses;  ///< by rank
    for (const Jobs::value_type* job : computing_jobs(jobs, tensorflow)) {
      if (job->first == type) launch.rank = static_cast<int>(std::ssize(addresses) + index);
      addresses.insert(addresses.end(), job->second.begin(), job->second.end());
    }
    launch.size = static_cast<int>(addresses.size());
    launch.computes = !is_server(type) && !(tensorflow && type == "evaluator");
    const auto job = std::ranges::find(jobs, type, &Jobs::value_type::first);
    const int64_t tasks = job == jobs.end() ? 0 : std::ssize(job->second);
    if (index >= tasks && (tensorflow && type != "evaluator"))
      reject(fmt::format(
                 "the environment variable TF_CONFIG has a `task` {} {}, and its `cluster` has {} of them",
                 type, index, tasks),
             "an index from 0 below their number");
    if (addresses.empty()) {
      throw Error(tensorflow ? ErrorKind::kUsage : ErrorKind::kConfig,
                  tensorflow ? Mark{} : options_.mark("jobs"),
                  fmt::format("{} has no task that computes", reason), "a job `worker` beside `ps`");
    }
    if (launch.size == 1 && jobs.size() == 1) return alone(reason);
    meet_at(launch, *parse_host_port(options_.address.value_or(addresses.front())));
    if (!launch.computes) {
      launch.source = fmt::format("{} {} ({}), beside {} that {}", type, index, reason, launch.size,
                                  launch.size == 1 ? "computes" : "compute");
      return launch;
    }
    count_local(launch, addresses);
    finish(launch, fmt::format("{} {}: {}", type, index, reason));
    return launch;
  }

  /// Tasks whose addresses have the same host are on one machine.
  static void count_local(Launch& launch, const std::vector<std::string>& addresses) {
    const std::string own = parse_host_port(addresses[launch.rank])->host;
    launch.local_size = 0;
    for (int rank = 0; rank < launch.size; ++rank) {
      if (parse_host_port(addresses[rank])->host != own) continue;
      if (rank < launch.rank) ++launch.local_rank;
      ++launch.local_size;
    }
  }

  // --- no complete set ---

  Launch no_launcher() const {
    for (const Variables& variables : all_variables())
      if (wanted(variables.launcher)) check_half(variables);
    if (options_.launcher != Launcher::kAuto) {
      const Launcher launcher = options_.launcher;
      throw Error(ErrorKind::kConfig, options_.mark("launcher"),
                  fmt::format("`cluster.launcher` is {}, and its environment variables ({}) are not set",
                              name_of(launcher), expected(launcher)),
                  fmt::format("start the program with it, or {}", kAlone));
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
          fmt::format("`cluster.processes` and `cluster.process`, a launcher, or {}", kAlone));
    }
    return alone({});
  }

  void check_half(const Variables& variables) const {
    const bool kubernetes = variables.launcher == Launcher::kKubernetes;
    const bool rank = has_rank(variables), size = find(variables.size);
    // Kubernetes numbers the pods of every indexed job, and Slurm counts tasks in shells, too.
    if (kubernetes && options_.launcher == Launcher::kAuto && !find("MASTER_ADDR")) return;
    if (rank) reject_half(variables.rank, variables.size);
    if (size && !kubernetes && variables.launcher != Launcher::kSlurm)
      reject_half(variables.size, variables.rank);
  }

  static std::string expected(Launcher launcher) {
    if (launcher == Launcher::kTfConfig) return "TF_CONFIG";
    for (const Variables& variables : all_variables())
      if (variables.launcher == launcher)
        return fmt::format("{}, {}{}", variables.rank, variables.size,
                           launcher == Launcher::kSlurm ? ", SLURM_STEP_ID" : "");
    return {};
  }

  const ClusterOptions& options_;
  const Environment& environment_;
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
                                      "TF_CONFIG"};
  for (const Variables& variables : all_variables())
    for (const std::string_view name :
         {variables.rank, variables.size, variables.local_rank, variables.local_size})
      names.push_back(name);
  for (const std::string_view name : names) environment.erase(std::string(name));
  return environment;
}

Launch detect_launch(const ClusterOptions& options, const Environment& environment) {
  Diagnostics diagnostics;
  check_cluster(options, diagnostics);
  diagnostics.throw_if_errors();
  return Detection(options, environment).run();
}

}  // namespace mtf
