// Simulates the run that is explained, with what section `simulate` says disturbs it: the step with stragglers and a slow
// link (disturbed_step.h), the times of a checkpoint by its bytes, and the run with failures (long_run.h).
//
//   explain(session, diagnostics, {simulated_part});   // run.mode=explain with section `simulate`
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/explain/explain.h"
#include "trainer/simulate/disturbed_step.h"
#include "trainer/simulate/long_run.h"

namespace mtf {

/// The mean step of the run, and what it is made of.
struct SimulatedStep {
  double seconds = 0;       ///< mean of steps with and without a slow straggler
  double undisturbed = 0;   ///< StepPrediction::seconds
  int64_t stragglers = 0;   ///< processes that are slow at times
  double slow_share = 0;    ///< share of the steps in which a straggler is slow
  std::string slow_link;    ///< the name of the link; empty: none is slow
  DisturbedStep processes;  ///< the processes in a step in which a straggler is slow, if there is one
};

struct SimulatedCheckpoint {
  int64_t bytes = 0;                     ///< written
  int64_t process_bytes = 0;             ///< by the first process, which writes most
  int64_t read_bytes = 0;                ///< by each process after a failure
  double copy = 0, write = 0, read = 0;  ///< seconds
};

/// Runs with an interval.
struct IntervalTrial {
  int64_t interval = 1;  ///< steps
  RunStatistics runs;
};

struct SimulatedRun {
  int64_t processes = 1, machines = 1;
  SimulatedStep step;
  SimulatedCheckpoint checkpoint;
  LongRun run;  ///< with the interval of checkpoint.every
  int64_t replicas = 1;
  RunStatistics runs;
  std::optional<IntervalTrial> best;  ///< nothing where nothing fails, or no run is completed
  std::vector<IntervalTrial> around;  ///< by interval, with those of `run` and `best`

  /// The time of the undisturbed steps alone.
  double undisturbed() const { return static_cast<double>(run.steps) * step.undisturbed; }
};

/// Reports what the configuration lacks, or what `simulate` says of links that are not there.
std::optional<SimulatedRun> simulate(const Session& session, const Explanation& explanation,
                                     Diagnostics& diagnostics);

/// Lines for people.
std::string to_text(const SimulatedRun& simulated);
/// {processes, machines, steps,
///  step: {seconds, undisturbed, stragglers, slow_share, slow_link: name or null,
///         processes: {stragglers | slow_link | others: {count, computing, waiting, sending}}},
///  checkpoint: {bytes, process_bytes, read_bytes, copy, write, read, pause, background},
///  mean_time_between_failures: of the run, or null; restart: with reading; replicas;
///  the keys of TRIAL (as configured), young_daly: seconds or null, best: TRIAL or null, around: [TRIAL]}. pause: what a
/// checkpoint takes of training
/// TRIAL: {interval: steps, complete, goodput: RANGE, seconds: RANGE, useful, lost, saving, restarting, failures}: means,
/// and RANGE {mean, low, high} with 5 and 95 %. complete: false where runs were given up
nlohmann::ordered_json to_json(const SimulatedRun& simulated);

/// Key "simulation" of the explanation; nothing without section `simulate`. Throws Error (kConfig).
std::optional<ExplainedPart> simulated_part(const Session& session, const Explanation& explanation);

}  // namespace mtf
