#include "engine/comm/launch/named_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/launch/complete_launch.h"
#include "engine/comm/launch/launcher_environment.h"

namespace mtf {
namespace {

bool is_server(std::string_view job) { return job == "ps"; }

/// Returns the jobs whose tasks compute, in the order of their ranks: chief, worker, then the others as they
/// are written.
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

/// Counts the local processes: tasks whose addresses have the same host are on one machine.
void count_local(Launch& launch, const std::vector<std::string>& addresses) {
  const std::string own = parse_host_port(addresses[launch.rank])->host;
  launch.local_size = 0;
  for (int rank = 0; rank < launch.size; ++rank) {
    if (parse_host_port(addresses[rank])->host != own) continue;
    if (rank < launch.rank) ++launch.local_rank;
    ++launch.local_size;
  }
}

}  // namespace

Launch named_task(const ClusterOptions& options, const Jobs& jobs, const std::string& type, int64_t index,
                  std::string_view reason, bool tensorflow) {
  Launch launch;
  launch.role = type;
  launch.task = static_cast<int>(index);
  launch.jobs = jobs;
  launch.size = 0;
  launch.rank = -1;
  std::vector<std::string> addresses;  ///< address of each rank
  for (const Jobs::value_type* job : computing_jobs(jobs, tensorflow)) {
    if (job->first == type) launch.rank = static_cast<int>(std::ssize(addresses) + index);
    addresses.insert(addresses.end(), job->second.begin(), job->second.end());
  }
  launch.size = static_cast<int>(addresses.size());
  launch.computes = !is_server(type) && !(tensorflow && type == "evaluator");
  const auto job = std::ranges::find(jobs, type, &Jobs::value_type::first);
  const int64_t tasks = job == jobs.end() ? 0 : std::ssize(job->second);
  if (tasks == 0 && tensorflow && type != "evaluator")
    reject_environment(
        fmt::format("the environment variable TF_CONFIG has a `task` of job `{}`, and no such job in its "
                    "`cluster`",
                    type),
        "a job of `cluster` with its addresses");
  if (index >= tasks && (tensorflow && type != "evaluator"))
    reject_environment(
        fmt::format("the environment variable TF_CONFIG has a `task` {} {}, and its `cluster` has {} of them",
                    type, index, tasks),
        "an index from 0 below their number");
  if (addresses.empty()) {
    throw Error(tensorflow ? ErrorKind::kUsage : ErrorKind::kConfig,
                tensorflow ? Mark{} : options.mark("jobs"),
                fmt::format("{} has no task that computes", reason), "a job `worker` beside `ps`");
  }
  if (launch.size == 1 && jobs.size() == 1 && launch.computes) return launch_alone(reason);
  meet_at(launch, *parse_host_port(options.address.value_or(addresses.front())));
  if (!launch.computes) {
    launch.source = fmt::format("{} {} ({}), beside {} that {}", type, index, reason, launch.size,
                                launch.size == 1 ? "computes" : "compute");
    return launch;
  }
  count_local(launch, addresses);
  complete_launch(launch, fmt::format("{} {}: {}", type, index, reason));
  return launch;
}

}  // namespace mtf
