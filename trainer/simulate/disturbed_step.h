// A training step on processes of which some are slow. All go through the schedule side by side: a collective between
// processes begins when the last of its group has come to it, so that the others wait. As in prediction.h a process has
// two queues, one that computes and one that carries collectives; without disturbances the time is that of predict_step. With
// stages of a pipeline each process does what its lane of the schedule says, and sends to those of other stages.
//
//   DisturbedProcesses disturbed{.stragglers = {17}, .slowdown = 1.5};
//   disturbed_step(schedule, {}, model.placement().mesh, disturbed).seconds;
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/core/hosted_mesh.h"
#include "trainer/costs/schedule.h"

namespace mtf {

struct DisturbedProcesses {
  std::vector<int64_t> stragglers = {};
  double slowdown = 1;  ///< factor on what stragglers compute
  std::optional<int64_t> slow_link = {};
};

/// Collectives between processes where a member of the group has a slow link, by ScheduledStart::message; the others take
/// what the schedule says.
using SlowCollectives = std::unordered_map<int64_t, ScheduledStart>;
/// The collectives of a schedule that was made for slow links.
SlowCollectives collectives_of(const std::vector<ScheduleItem>& schedule);

/// Seconds of a step in processes of one kind: the means over them.
struct ProcessTimes {
  int64_t count = 0;
  double computing = 0, waiting = 0, sending = 0;
};

struct DisturbedStep {
  double seconds = 0;  ///< until the last process has done the step
  /// A straggler with a slow link counts as a straggler.
  ProcessTimes stragglers, slow_link, others;
};

/// `step`: DeviceOptions::step. `stages`: the mesh dimension of a pipeline's stages; the positions of a process then form a
/// block of the mesh. The time that a process waits for others after its last work counts as waiting.
DisturbedStep disturbed_step(const std::vector<ScheduleItem>& schedule, const SlowCollectives& slow,
                             const HostedMesh& hosted, const DisturbedProcesses& disturbed, double step = 0,
                             const std::optional<int>& stages = {});

/// The seconds that the undisturbed step computes before it updates the first variable.
double seconds_before_update(const std::vector<ScheduleItem>& schedule, double step = 0);

}  // namespace mtf
