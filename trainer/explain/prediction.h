// The cost model: predicts how long a training step takes on one position, at the rates of a machine that need not be
// there. Two queues work in order: the processor computes, the network sends one collective at a time. A wait holds the
// processor up until the collectives that it names are done. Contractions take their FLOPs at one rate, other operations
// their bytes at another, a collective a latency and its bytes at the rate of its slowest mesh dimension.
//
//   const StepPrediction step = predict_step(schedule_of(program), rates);
//   step.seconds;   // computing + waiting, and what the network still sends after that
//
// The page of explain.format=html draws the same (trainer/html/time_line.js).
#pragma once

#include <vector>

#include "trainer/config/config.h"
#include "trainer/explain/schedule.h"

namespace mtf {

/// What one position does in a second.
struct MachineRates {
  double flops = 0;           ///< FLOPs of contractions
  double memory = 0;          ///< bytes that other operations read and write
  std::vector<double> links;  ///< bytes sent, by mesh dimension
  double latency = 0;         ///< seconds that each collective takes besides
};

/// Seconds of one step on one position.
struct StepPrediction {
  double seconds = 0;
  double computing = 0;
  double waiting = 0;  ///< the processor waits for a collective
  double sending = 0;  ///< the network is busy
};

StepPrediction predict_step(const std::vector<ScheduleItem>& schedule, const MachineRates& rates);

/// Returns explain.rates on `mesh`. Reports a rate of a mesh dimension that does not exist.
MachineRates machine_rates(const Config& config, const Mesh& mesh, Diagnostics& diagnostics);

}  // namespace mtf
