#include "trainer/cluster_config.h"

#include <fmt/format.h>

#include "trainer/config.h"

namespace mtf {
namespace {

void collect_marks(const config::Node& node, const std::string& path, std::map<std::string, Mark>& marks) {
  const auto below = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (node.is_list()) {
    for (size_t i = 0; i < node.elements().size(); ++i) {
      marks[below(fmt::format("{}", i))] = node.elements()[i].mark();
      collect_marks(node.elements()[i], below(fmt::format("{}", i)), marks);
    }
  }
  for (const config::Entry& entry : node.entries()) {
    if (entry.value.is_null()) continue;
    marks[below(entry.key)] = entry.value.mark().known() ? entry.value.mark() : entry.mark;
    collect_marks(entry.value, below(entry.key), marks);
  }
}

}  // namespace

void describe(config::Visitor& visit, ClusterConfig& options) {
  constexpr config::Bounds count{1.0, 1e6, false};
  visit(
      "collectives", options.collectives,
      "what carries data between processes: nccl, from GPU to GPU, where each process has a GPU of its own; "
      "gloo, through the host; auto: nccl where it can be");
  visit("launcher", options.launcher,
        "whose environment variables say which process this is; none: there is one process; auto: the first "
        "from torchrun on whose variables are all there (those of torchrun are mtf-launch's, too)");
  visit("address", options.address, "HOST:PORT of process 0, where the processes meet");
  visit("processes", options.processes, "how many there are; 1: this one, whatever a launcher says", count);
  visit("process", options.process, "which one this is, from 0", config::non_negative);
  visit("jobs", options.jobs,
        "HOST:PORT of each task by the name of its job, such as {worker: [a:2222, b:2222]}, in place of "
        "address and processes; the tasks of chief have the first ranks, then worker, then others; ps: "
        "parameter servers, which have none");
  visit("job", options.job, "which job is that of this process");
  visit("task", options.task, "which task of its job this process is, from 0", config::non_negative);
  visit("connect_timeout", options.connect_timeout, "how long processes wait for each other at the start");
  visit("collective_timeout", options.collective_timeout,
        "how long a process waits for another in a collective before it takes it for lost");
  visit("overlap", options.overlap,
        "computation goes on while collectives between processes run; false: each is waited for at once");
}

ClusterOptions cluster_options(const Config& config) {
  const ClusterConfig& cluster = config.cluster;
  ClusterOptions options;
  options.launcher = cluster.launcher;
  options.address = cluster.address;
  options.processes = cluster.processes;
  options.process = cluster.process;
  options.jobs = cluster.jobs;
  options.job = cluster.job;
  options.task = cluster.task;
  options.connect_timeout = cluster.connect_timeout.seconds;
  options.collective_timeout = cluster.collective_timeout.seconds;
  options.marks[""] = config.mark("cluster");
  if (const config::Node* section = config.root.find("cluster")) collect_marks(*section, {}, options.marks);
  return options;
}

std::chrono::milliseconds in_milliseconds(const config::Duration& timeout) {
  return std::chrono::milliseconds(static_cast<int64_t>(timeout.seconds * 1000));
}

ClusterConfig without_processes(const ClusterConfig& cluster) {
  ClusterConfig result;
  result.collectives = cluster.collectives;
  result.connect_timeout = cluster.connect_timeout;
  result.collective_timeout = cluster.collective_timeout;
  result.overlap = cluster.overlap;
  return result;
}

}  // namespace mtf
