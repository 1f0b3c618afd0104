// Runs the steps of a training: on the positions of the run's processes, or together with parameter servers
// (parameter_server/worker.h). The loop around it decides when to log, evaluate, save and end.
//
//   runner->start(state, steps);
//   while (const Batch* batch = runner->next(state)) {
//     runner->run(*batch, state);
//     runner->count(*batch, state);
//   }
#pragma once

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

/// The batches of training from row `row` of the stream on.
TrainingBatches batches_from(const Session& session, int64_t row);

/// The span of the next batch in a profile.
ProfileSpan wait_for_data(const Session& session);

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  /// Begins or goes on at `state`, with the variables that are set. `last_step`: where the run ends, if that
  /// is known.
  virtual void start(const RunState& state, std::optional<int64_t> last_step) = 0;
  /// The next batch; null: others do the last ones, or have done them: `state` is that of the end.
  virtual const Batch* next(RunState& state) = 0;
  virtual void run(const Batch& batch, const RunState& state) = 0;
  /// Steps in a row without finite values, the one that was run the last; 0: it is finite. No other changes
  /// variables.
  virtual int64_t skipped() const = 0;
  /// Loss and norm of the gradients of the last step before `state`.
  virtual double loss() const = 0;
  virtual double grad_norm() const = 0;
  /// The number by which the step that was run has drawn its random numbers.
  virtual uint64_t random_step(const RunState& state) const { return static_cast<uint64_t>(state.step); }
  /// Moves `state` on by it.
  virtual void count(const Batch& batch, RunState& state) = 0;

  /// Brings what evaluations read up to date.
  virtual void fetch_weights() {}
  /// Brings all variables up to date, to be saved with `state`; steps wait until release().
  virtual void hold(RunState&) {}
  virtual void release() {}
  /// Numbers of its own for the log.
  virtual Metrics metrics() { return {}; }
  /// Lines for the end of the log.
  virtual std::vector<std::string> report() { return {}; }
  /// The run has ended well.
  virtual void leave() {}
};

/// Steps whose program has the update in it. `scalars`: its inputs.
std::unique_ptr<StepRunner> local_steps(const Session& session, Executor& executor,
                                        std::vector<StepScalar> scalars);

}  // namespace mtf
