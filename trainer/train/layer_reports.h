// What layers give beside their results, for the log of a step: the outputs loss/NAME and report/NAME of the program.
#pragma once

#include <vector>

#include "engine/spmd/program.h"
#include "trainer/report/metrics.h"
#include "trainer/steps/step_runner.h"

namespace mtf {

struct LayerReports {
  Metrics numbers;
  std::vector<MetricList> lists;
};
/// Returns those of the step whose results `runner` has taken last; none if another worker has made it.
LayerReports layer_reports(const Program& program, const StepRunner& runner);

}  // namespace mtf
