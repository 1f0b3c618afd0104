// The order of a training step on one position: stretches of local work, the start of each collective, and the
// waits for their results. With rates of a machine it gives a time line; by itself it knows no time.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/spmd/program_facts.h"

namespace mtf {

struct ScheduleLoop;

/// Local operations of one layer and phase, between two collectives.
struct ScheduledWork {
  std::string layer;  ///< scope path; empty outside all layers
  Phase phase = Phase::kForward;
  double flops = 0;  ///< FLOPs of contractions
  double bytes = 0;  ///< bytes that the other operations read and write
};
/// A collective begins; others follow without waiting for its result.
struct ScheduledStart {
  int64_t message = 0;  ///< CollectiveFact::message
  std::string kind;
  AxisMask axes = 0;
  std::string layer;
  Phase phase = Phase::kForward;
  double bytes_sent = 0;  ///< bytes that one position sends
};
/// Local work stops until these collectives are done.
struct ScheduledWait {
  std::vector<int64_t> messages;
};
using ScheduleItem = std::variant<ScheduledWork, ScheduledStart, ScheduledWait, ScheduleLoop>;

struct ScheduleLoop {
  int64_t times = 1;
  std::vector<ScheduleItem> body;
};

std::vector<ScheduleItem> schedule_of(const Program& program);

}  // namespace mtf
