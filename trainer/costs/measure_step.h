// Compiles training steps that a search compares, plans their memory and predicts their time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/costs/cost_model.h"
#include "trainer/costs/recompute_search.h"
#include "trainer/memory/memory_check.h"
#include "trainer/session/session.h"

namespace mtf {

/// A step of a run: the memory is that of the run, with its evaluation.
struct CompiledStep {
  MeasuredStep step;     ///< `trial.memory` is that in which the results of layers are
  TightMemory tightest;  ///< the memory that the step fits least into, in any process
  std::vector<std::string> batch_statistics = {};  ///< TrainStep::batch_statistics
};

class StepMeasure {
 public:
  /// `options` but for what is asked for; `evaluation`: null, or a program of the run. All must outlive this object.
  /// `limits`: of the processes into each of which the step must fit.
  StepMeasure(const Session& session, TrainStepOptions options, const Program* evaluation,
              const MemoryUse& use, ProcessLimits limits);

  /// Not legal if the model or the layouts do not allow it.
  CompiledStep operator()(const Recompute& recompute, int64_t microbatches);

 private:
  /// Sets the memory of the process that it fits least into.
  void set_memory(const Program& program, CompiledStep& result) const;

  const Session& session_;
  TrainStepOptions options_;
  const Program* evaluation_;
  const MemoryUse& use_;
  const ProcessLimits limits_;
  Diagnostics reported_;  ///< by explain
  const CostModel model_;
};

}  // namespace mtf
