// The interface that runs training steps: on the positions of the run's processes, or with parameter servers
// (parameter_server/worker.h). The training loop decides when to log, evaluate, save and end.
//
//   runner->start(state, steps);
//   while (const Batch* batch = runner->next(state)) {
//     runner->run(*batch, state);
//     runner->take_results();
//     runner->count(state);
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "engine/runtime/executor.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/report/metrics.h"
#include "trainer/session/session.h"
#include "trainer/session/step.h"

namespace mtf {

/// Returns the options of the training batches from row `row` of the stream on.
TrainingBatches batches_from(const Session& session, int64_t row);

/// Reads the batches of the steps behind `state` ahead, up to step `last_step`, if it is known, with what this process needs
/// of the inputs of `program`. The consumer keeps the last `kept` batches.
std::unique_ptr<Prefetcher> prefetch_batches(const Session& session, const Program& program,
                                             const RunState& state, std::optional<int64_t> last_step,
                                             int kept = 1);

/// Returns a profile span for waiting for the next batch.
ProfileSpan wait_for_data(const Session& session);

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Begins or resumes at `state`, with the current variables. `last_step` is the step at which the run ends,
  /// if it is known.
  virtual void start(const RunState& state, std::optional<int64_t> last_step) = 0;
  /// Waits, up to `patience`, until next() need not wait for data; false: it would.
  virtual bool wait(std::chrono::milliseconds /*patience*/) { return true; }
  /// Returns the next batch; null if other workers process the last ones, in which case `state` becomes that
  /// of the end.
  virtual const Batch* next(RunState& state) = 0;
  /// The number of steps that may be run before the results of the step before them are taken: 0, or 1 on
  /// devices. A batch remains valid until its step is counted.
  virtual int ahead() const { return 0; }
  /// Begins a step; `state` is the one before it. A device may still be computing when the call returns.
  virtual void run(const Batch& batch, const RunState& state) = 0;
  /// Waits for the first of the steps that were run but not counted. The following functions are about it.
  virtual void take_results() = 0;
  /// Returns the number of consecutive steps with values that are not finite, up to this one; 0 if it is
  /// finite. Steps that are not finite do not change variables.
  virtual int64_t skipped() const = 0;
  virtual double loss() const = 0;
  virtual double grad_norm() const = 0;
  /// False: another worker has made the step, and the following two are of no use.
  virtual bool has_outputs() const { return true; }
  /// The value of a 0-dimensional output of the program.
  virtual double output(const std::string& name) const = 0;
  /// The elements of an output report/NAME of any shape.
  virtual std::vector<double> elements(const std::string& name) const = 0;
  /// Repeats the step, which is not finite, to find out where. `state` is the one before it. Every process of
  /// the run must call it.
  virtual std::optional<NonFinite> first_non_finite(const RunState& state) = 0;
  /// Advances `state` by the step.
  virtual void count(RunState& state) = 0;

  /// Updates the variables that evaluations read.
  virtual void fetch_weights() {}
  /// Updates all variables, to be saved with `state`. Other workers' steps wait until release().
  virtual void hold(RunState&) {}
  virtual void release() {}
  /// Returns additional numbers for the log.
  virtual Metrics metrics() { return {}; }
  /// Returns lines for the end of the log.
  virtual std::vector<std::string> report() { return {}; }
  /// Called when the run has ended successfully.
  virtual void leave() {}
};

/// Returns a runner of steps whose program contains the update. `scalars` are inputs of the program.
std::unique_ptr<StepRunner> local_steps(const Session& session, Executor& executor,
                                        std::vector<StepScalar> scalars);

}  // namespace mtf
