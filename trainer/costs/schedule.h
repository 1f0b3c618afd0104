// The order of a training step in one process, with the time that the cost model predicts for each part: local work, the
// start of each collective between processes, and the waits for their results. Collectives within the process are
// local work. Where processes have different stages of a pipeline, the items of one process of each stage stand in the
// order of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/spmd/program_facts.h"
#include "trainer/costs/cost_model.h"

namespace mtf {

struct ScheduleLoop;

/// The processes that have the same stages of a pipeline form a lane. Without stages, or with all stages in each process,
/// there is one lane.
class Lanes {
 public:
  explicit Lanes(const HostedMesh& mesh);
  /// The lane of a stage; nothing: there is one lane.
  std::optional<int> of(const std::optional<Pin>& pin) const;
  std::vector<int> others(const Pin& pin) const;

 private:
  const std::vector<int>& of_stages(const Pin& pin) const { return lanes_[static_cast<size_t>(pin.axis)]; }

  std::vector<std::vector<int>> lanes_;  ///< the lane of each stage along each mesh dimension, ascending
};

/// A local operation, or a collective within the process.
struct ScheduledWork {
  NamedScope layer;
  Phase phase = Phase::kForward;
  WorkKind kind = WorkKind::kReduction;
  double flops = 0;                     ///< FLOPs of one position; 0 unless has_flops(kind)
  double bytes = 0;                     ///< Work::bytes of one position
  double seconds = 0;                   ///< for all positions of the process
  std::optional<int64_t> message = {};  ///< the message of a collective: CollectiveFact::message
  std::optional<int> lane = {};         ///< Lanes: the one that does it; nothing: each
};
/// A collective between processes begins, or a transfer between a GPU and its machine; others follow without waiting for its
/// result. Both are taken to share the network, one after the other.
struct ScheduledStart {
  int64_t message = 0;    ///< CollectiveFact::message; negative: the number of a transfer
  std::string_view kind;  ///< name_of() the instruction
  AxisMask axes = 0;
  NamedScope layer;
  Phase phase = Phase::kForward;
  double bytes_sent = 0;         ///< bytes that one position sends
  double seconds = 0;            ///< on the network
  double processor = 0;          ///< seconds that the processor cannot compute meanwhile
  std::optional<int> lane = {};  ///< the one that takes part, or sends; nothing: each by itself
  std::vector<int> to = {};      ///< lanes to which it is sent
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

/// The number of lanes.
int lanes_of(const std::vector<ScheduleItem>& schedule);

}  // namespace mtf
