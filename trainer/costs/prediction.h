// Predicts how long a training step takes in a process. Two queues work in order: the processor computes, the network
// carries one collective at a time. A wait holds the processor up until the collectives that it names are done. The stages
// of a pipeline are followed together, one process of each.
//
//   const StepPrediction step = predict_step(schedule_of(program, model), model.step_seconds());
//   step.seconds;   // computing + waiting, and what the network still sends after that
//
// The page of explain.format=html draws the same (trainer/html/time_line.js).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/costs/cost_model.h"
#include "trainer/costs/schedule.h"
#include "trainer/session/session.h"

namespace mtf {

/// Iterations of a loop that are simulated one by one; those that are left take as long as the last of them.
inline constexpr int64_t kLongestLoop = 64;

/// Seconds of one step in one process; with stages of a pipeline, but for `seconds`, the mean over them.
struct StepPrediction {
  double seconds = 0;
  double computing = 0;
  double waiting = 0;  ///< the processor waits for a collective
  double sending = 0;  ///< the network is busy
  double step = 0;     ///< the part of `computing` that belongs to no instruction
  std::array<double, kWorkKinds>
      kinds{};  ///< `computing` by kind; collectives: within the process, and what the
                ///< processor does for those between processes
};

/// Returns "61.2 ms" or "1.997 s".
std::string predicted_time_text(double seconds);

/// `step`: CostModel::step_seconds().
StepPrediction predict_step(const std::vector<ScheduleItem>& schedule, double step = 0);

/// The first process of the run on the hardware of section `hardware`, or on what is assumed without it. Reports hardware
/// whose links do not join all processes.
CostModel cost_model_of(const Config& config, const Mesh& mesh, bool is_cuda, Diagnostics& diagnostics);

}  // namespace mtf
