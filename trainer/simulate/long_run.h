// A long run with failures and checkpoints, simulated from event to event: the end of the steps up to a checkpoint, the
// end of the pause for its copy, the end of its writing, a failure, the end of a restart. After a failure the run goes on
// from the newest checkpoint that was written whole.
//
//   const LongRun run{.steps = 100'000, .step = 0.8, .interval = 500, .pause = 0.3, .write = 40,
//                     .mean_time_between_failures = 3 * 3600.0, .restart = 400};
//   const RunStatistics runs = simulate_runs(run, {.replicas = 200, .seed = 1});
//   runs.goodput.mean;
//   best_interval(run, {.replicas = 200, .seed = 1});
//
// Failures are a Poisson process. Their times are pure functions of seed and replica: runs with other intervals meet the
// same failures, and comparisons of intervals need few replicas.
#pragma once

#include <cstdint>
#include <limits>

namespace mtf {

/// A simulated run that has saved more checkpoints is given up.
inline constexpr int64_t kMostCheckpoints = 300'000;

/// What is known of a run beforehand. Times are in seconds.
struct LongRun {
  int64_t steps = 1;
  double step = 1;
  int64_t interval = 1;  ///< steps between checkpoints; there is one at the end in any case
  /// Training stands still so long for a checkpoint, besides waiting until the one before is written.
  double pause = 0;
  double write = 0;  ///< from the end of the pause until the checkpoint can be used
  bool background = true;
  double mean_time_between_failures = std::numeric_limits<double>::infinity();
  double restart = 0;  ///< from a failure until the next step begins

  /// What a checkpoint takes of training.
  double overhead() const { return background ? pause : pause + write; }
};

/// How a run went. The wall time is the sum of the four parts.
struct RunOutcome {
  double useful = 0;      ///< steps that last
  double lost = 0;        ///< steps that failures undid
  double saving = 0;      ///< training stands still for checkpoints
  double restarting = 0;  ///< after failures
  int64_t failures = 0;
  bool is_complete = false;  ///< false: given up, since it makes hardly any progress

  double seconds() const { return useful + lost + saving + restarting; }
  /// The share of the wall time that is useful steps.
  double goodput() const { return seconds() > 0 ? useful / seconds() : 0; }
};

struct Replicas {
  int64_t replicas = 200;
  uint64_t seed = 1;
};

RunOutcome simulate_run(const LongRun& run, uint64_t seed, int64_t replica);

/// The mean over replicas, and the range in which 90 % of them are.
struct ReplicaRange {
  double mean = 0, low = 0, high = 0;
};

struct RunStatistics {
  /// goodput.mean is the share of the wall time of all replicas together, mean.goodput(); the range is that of the replicas.
  ReplicaRange seconds, goodput;
  RunOutcome mean;            ///< means of the parts
  double failures = 0;        ///< mean number
  bool are_complete = false;  ///< all replicas
};

RunStatistics simulate_runs(const LongRun& run, const Replicas& replicas);

/// The steps between checkpoints with which runs take the shortest time on average; of those within 0.001 % of it the most.
/// run.interval does not matter.
int64_t best_interval(const LongRun& run, const Replicas& replicas);

/// The seconds between checkpoints by the formula of Young and Daly, sqrt(2 C M): C what a checkpoint takes of training, M
/// the mean time between failures (J. W. Young: A first order approximation to the optimum checkpoint interval, 1974;
/// J. T. Daly: A higher order estimate of the optimum checkpoint interval for restart dumps, 2006).
double young_daly_seconds(const LongRun& run);

}  // namespace mtf
