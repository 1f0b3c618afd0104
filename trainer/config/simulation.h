// Section `simulate`: what disturbs a long run, for run.mode=explain, which then says its goodput and how often to save.
//
//   simulate: {mean_time_between_failures: {machine: 20000h}, restart: 6min, checkpoint: {bandwidth: 40e9}}
//
// trainer/simulate says what the numbers mean for a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/config/schema.h"

namespace mtf {

/// Failures come at random: the time from one to the next is exponentially distributed. At most one is given; without
/// any, nothing fails.
struct FailureRate {
  static constexpr std::string_view shorthand = "run";
  std::optional<config::Duration> run;      ///< mean time between failures of any machine
  std::optional<config::Duration> machine;  ///< mean time between failures of a single machine
};

/// Processes that compute more slowly than others.
struct StragglerOptions {
  double share = 0.01;  ///< share of the processes; at least one of them
  double slowdown = 1.5;
  double probability = 1;  ///< that one of them is slow in a step
};

/// A process that sends and receives more slowly than others.
struct SlowLinkOptions {
  std::string link;        ///< name in `hardware.links`; empty: the last one
  double bandwidth = 0.5;  ///< the share of the link's that is left
};

/// How long a checkpoint takes to be copied, written and read.
struct CheckpointTimeOptions {
  double bandwidth = 2e9;                   ///< bandwidth of the storage, for all processes together
  std::optional<double> process_bandwidth;  ///< between a process and the storage; nothing: `bandwidth`
  config::Auto<double> copy_bandwidth;      ///< bandwidth of the copy from which the checkpoint is written
  config::Auto<config::Duration> copy, write, read;
  bool background = true;
};

struct SimulateOptions {
  FailureRate mean_time_between_failures;
  config::Duration restart{300};
  config::Auto<int64_t> processes_of_machine;
  std::optional<StragglerOptions> stragglers;
  std::optional<SlowLinkOptions> slow_link;
  CheckpointTimeOptions checkpoint;
  int64_t replicas = 200;
  int64_t seed = 1;
};

void describe(config::Visitor& visit, FailureRate& options);
void describe(config::Visitor& visit, StragglerOptions& options);
void describe(config::Visitor& visit, SlowLinkOptions& options);
void describe(config::Visitor& visit, CheckpointTimeOptions& options);
void describe(config::Visitor& visit, SimulateOptions& options);

}  // namespace mtf
