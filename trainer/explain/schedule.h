// The order of a training step in one process, with the time that the cost model predicts for each part: local work, the
// start of each collective between processes, and the waits for their results. Collectives within the process are
// local work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/spmd/program_facts.h"
#include "trainer/explain/cost_model.h"

namespace mtf {

struct ScheduleLoop;

/// A local operation, or a collective within the process.
struct ScheduledWork {
  std::string layer;  ///< scope path; empty outside all layers
  Phase phase = Phase::kForward;
  WorkKind kind = WorkKind::kReduction;
  double flops = 0;                     ///< FLOPs of one position; 0 unless has_flops(kind)
  double bytes = 0;                     ///< Work::bytes of one position
  double seconds = 0;                   ///< for all positions of the process
  std::optional<int64_t> message = {};  ///< the message of a collective: CollectiveFact::message
};
/// A collective between processes begins; others follow without waiting for its result.
struct ScheduledStart {
  int64_t message = 0;  ///< CollectiveFact::message
  std::string kind;
  AxisMask axes = 0;
  std::string layer;
  Phase phase = Phase::kForward;
  double bytes_sent = 0;  ///< bytes that one position sends
  double seconds = 0;     ///< on the network
  double processor = 0;   ///< seconds that the processor cannot compute meanwhile
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

/// An item for each instruction.
std::vector<ScheduleItem> schedule_of(const Program& program, const CostModel& model);

}  // namespace mtf
