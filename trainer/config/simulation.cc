#include "trainer/config/simulation.h"

namespace mtf {
namespace {

using config::non_negative;
using config::positive;

constexpr config::Bounds kFraction{0.0, 1.0, true};
constexpr config::Bounds kReplicas{1.0, 1e5, false};

}  // namespace

void describe(config::Visitor& visit, FailureRate& options) {
  visit("run", options.run, "mean time between failures of any machine of the run, such as 8h");
  visit(
      "machine", options.machine,
      "mean time between failures of a single machine, such as 20000h; the run fails as many times as often "
      "as it has machines");
  visit.at_most_one_of({"run", "machine"});
}

void describe(config::Visitor& visit, StragglerOptions& options) {
  visit("share", options.share, "share of the processes that compute more slowly, at least one", kFraction);
  visit("slowdown", options.slowdown, "how many times as long their computation takes", config::at_least(1));
  visit("probability", options.probability,
        "probability that such a process is slow in a step; 1: it always is", kFraction);
}

void describe(config::Visitor& visit, SlowLinkOptions& options) {
  visit("link", options.link, "name of one of `hardware.links`; none: the last, outermost one");
  visit("bandwidth", options.bandwidth, "share of the bandwidth that is left", kFraction);
}

void describe(config::Visitor& visit, CheckpointTimeOptions& options) {
  visit("bandwidth", options.bandwidth,
        "bytes in a second that the storage writes or reads for all processes together", positive);
  visit("process_bandwidth", options.process_bandwidth,
        "bytes in a second that one process writes or reads; null: as `bandwidth`. Where data parallelism "
        "replicates "
        "variables, the first process writes them alone",
        positive);
  visit("copy_bandwidth", options.copy_bandwidth,
        "bytes in a second of the copy in memory from which the checkpoint is written; auto: "
        "`hardware.device.host_link` from a GPU, else what `hardware.device` copies on a core",
        positive);
  visit("copy", options.copy, "time of this copy, such as 2s; auto: by its bytes");
  visit("write", options.write, "time to write it, such as 40s; auto: by its bytes");
  visit("read", options.read, "time to read a checkpoint after a failure; auto: by its bytes");
  visit("background", options.background,
        "training goes on while the copy is written, as mtf-train does; false: as if it waited");
}

void describe(config::Visitor& visit, SimulateOptions& options) {
  visit("mean_time_between_failures", options.mean_time_between_failures,
        "MTBF, of the whole run or {machine: TIME}; null: nothing fails");
  visit("restart", options.restart,
        "time from a failure until the processes run again, on what has taken the place of the lost machine; "
        "reading "
        "the checkpoint comes on top of it");
  visit("processes_of_machine", options.processes_of_machine,
        "processes that fail together; auto: those of the innermost of `hardware.links` on GPUs, of links "
        "`inside` a "
        "machine on processors",
        positive);
  visit("stragglers", options.stragglers,
        "processes that compute more slowly, such as {share: 0.01, slowdown: 1.5}");
  visit("slow_link", options.slow_link, "a process with a slow link, such as {bandwidth: 0.25}");
  visit("checkpoint", options.checkpoint, "how long a checkpoint takes");
  visit("replicas", options.replicas, "so many simulated runs are averaged", kReplicas);
  visit("seed", options.seed, "of failures, and of where stragglers and the slow link are", non_negative);
}

}  // namespace mtf
