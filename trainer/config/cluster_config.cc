#include "trainer/config/cluster_config.h"

#include <fmt/format.h>

#include "trainer/config/config.h"

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
  visit("within_machine", options.within_machine,
        "how gloo carries data between processes of one machine: memory, from the memory of one into that of "
        "the other, where the system allows it and no GPU is used; sockets, as between machines");
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
  visit(
      "secret_file", options.secret_file,
      "file with the secret by which the processes of a run know each other, the same for all; MTF_SECRET in "
      "the environment comes before it. Without a secret they meet on this machine only");
  visit("insecure", options.insecure,
        "processes of other machines are let in without a secret: anybody who reaches them can join the run");
  visit("connect_timeout", options.connect_timeout, "how long processes wait for each other at the start");
  visit("collective_timeout", options.collective_timeout,
        "how long a process waits for another in a collective before it takes it for lost");
  visit("overlap", options.overlap,
        "computation goes on while collectives between processes run; false: each is waited for at once");
  visit(
      "overlap_memory", options.overlap_memory,
      "by how much the temporaries of a position may grow for it: what collectives send keeps its memory "
      "until it "
      "is sent, where memory is free at the time, and in so much more; auto: a fiftieth of the temporaries");
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
  if (cluster.secret_file) options.secret_file = cluster.secret_file->text;
  options.insecure = cluster.insecure;
  options.connect_timeout = cluster.connect_timeout.seconds;
  options.collective_timeout = cluster.collective_timeout.seconds;
  options.marks[""] = config.mark("cluster");
  if (const config::Node* section = config.root.find("cluster")) collect_marks(*section, {}, options.marks);
  return options;
}

Access cluster_access(const Config& config) {
  return find_access(cluster_options(config), environment_of_process());
}

std::string insecure_warning(const Access& access, const std::string& address) {
  if (!access.insecure || access.secret.is_given()) return {};
  return fmt::format(
      "warning: `cluster.insecure`: anybody who can reach {} can join this run, read and change it", address);
}

std::chrono::milliseconds in_milliseconds(const config::Duration& timeout) {
  return std::chrono::milliseconds(static_cast<int64_t>(timeout.seconds * 1000));
}

ClusterConfig without_processes(const ClusterConfig& cluster) {
  ClusterConfig result;
  result.collectives = cluster.collectives;
  result.within_machine = cluster.within_machine;
  result.connect_timeout = cluster.connect_timeout;
  result.collective_timeout = cluster.collective_timeout;
  result.overlap = cluster.overlap;
  result.overlap_memory = cluster.overlap_memory;
  return result;
}

}  // namespace mtf
