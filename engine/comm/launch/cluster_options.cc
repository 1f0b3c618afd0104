#include "engine/comm/launch/cluster_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/counted.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"

namespace mtf {
namespace {

constexpr std::string_view kAddressHint = "HOST:PORT, for example 10.0.0.1:29500";

class ClusterCheck {
 public:
  ClusterCheck(const ClusterOptions& options, Diagnostics& diagnostics)
      : options_(options), diagnostics_(diagnostics) {}

  void run() {
    if (options_.address) check_address("address", *options_.address);
    check_jobs();
    if (options_.job) check_task();
    if (!options_.job && options_.task != 0) error("task", "`cluster.task` needs `cluster.job`");
    if (options_.process) check_process();
    check_count();
  }

 private:
  void error(std::string_view key, std::string message, std::string hint = {}) {
    diagnostics_.error(options_.mark(key), std::move(message), std::move(hint));
  }

  void check_address(const std::string& key, const std::string& address) {
    if (parse_host_port(address)) return;
    error(key, fmt::format("`cluster.{}`: `{}` is no address", key, address), std::string(kAddressHint));
  }

  void check_jobs() {
    std::set<std::string> seen;
    for (const auto& [name, tasks] : options_.jobs) {
      if (tasks.empty()) error("jobs." + name, fmt::format("job `{}` has no tasks", name));
      for (size_t i = 0; i < tasks.size(); ++i) {
        const std::string key = fmt::format("jobs.{}.{}", name, i);
        check_address(key, tasks[i]);
        if (!seen.insert(tasks[i]).second)
          error(key, fmt::format("two tasks of `cluster.jobs` have the address {}", tasks[i]));
      }
    }
  }

  void check_task() {
    if (options_.process)
      error("process", "`cluster.process` and `cluster.job` both say which process this is");
    std::vector<std::string> names;
    for (const auto& [name, tasks] : options_.jobs) names.push_back(name);
    const auto job = std::ranges::find(names, *options_.job);
    if (job == names.end()) {
      const std::string hint = names.empty() ? "`cluster.jobs: {worker: [HOST:PORT, HOST:PORT]}`"
                                             : did_you_mean(*options_.job, names);
      return error("job", fmt::format("`cluster.jobs` has no job `{}`", *options_.job), hint);
    }
    const int64_t tasks = std::ssize(options_.jobs[job - names.begin()].second);
    if (options_.task < tasks || tasks == 0) return;
    error("task",
          fmt::format("`cluster.task` is {}, and job `{}` has {}", options_.task, *options_.job,
                      counted(tasks, "task")),
          tasks == 1 ? "0" : fmt::format("0 to {}", tasks - 1));
  }

  void check_process() {
    if (!options_.processes) return error("process", "`cluster.process` needs `cluster.processes`");
    if (*options_.process >= *options_.processes) {
      return error("process",
                   fmt::format("`cluster.process` is {}, and `cluster.processes` is {}", *options_.process,
                               *options_.processes),
                   *options_.processes == 1 ? "0" : fmt::format("0 to {}", *options_.processes - 1));
    }
    if (*options_.processes > 1 && !options_.address)
      error("process", "`cluster.address` is missing: where the processes meet", std::string(kAddressHint));
  }

  /// Checks `processes` against the jobs. One process is allowed for any section, so that a run can be
  /// repeated alone.
  void check_count() {
    if (!options_.processes || *options_.processes == 1 || options_.jobs.empty()) return;
    int64_t tasks = 0;
    for (const auto& [name, addresses] : options_.jobs)
      if (name != "ps") tasks += std::ssize(addresses);
    if (tasks == *options_.processes) return;
    error("processes",
          fmt::format("`cluster.processes` is {}, and `cluster.jobs` has {} without `ps`",
                      *options_.processes, counted(tasks, "task")),
          "`cluster.jobs` alone says how many there are");
  }

  const ClusterOptions& options_;
  Diagnostics& diagnostics_;
};

}  // namespace

Mark ClusterOptions::mark(std::string_view key) const {
  while (true) {
    if (const auto found = marks.find(std::string(key)); found != marks.end()) return found->second;
    if (key.empty()) return {};
    const size_t dot = key.rfind('.');
    key = dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
  }
}

bool HostPort::is_loopback() const {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.find_first_of(brackets ? " []/" : " []/:") != std::string_view::npos) return std::nullopt;
  const auto port = parse_number<int>(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  return HostPort{std::string(host), *port};
}

std::string to_string(const HostPort& address) {
  if (address.host.find(':') == std::string::npos) return fmt::format("{}:{}", address.host, address.port);
  return fmt::format("[{}]:{}", address.host, address.port);
}

void check_cluster(const ClusterOptions& options, Diagnostics& diagnostics) {
  ClusterCheck(options, diagnostics).run();
}

}  // namespace mtf
