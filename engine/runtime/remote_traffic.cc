#include "engine/runtime/remote_traffic.h"

#include <map>

#include "engine/comm/device/device_plan.h"
#include "engine/comm/process/sent_bytes.h"
#include "engine/runtime/planned_collectives.h"

namespace mtf {
namespace {

class TrafficCounter {
 public:
  TrafficCounter(const Program& program, Hosting hosting, bool replicate, bool on_device)
      : program_(program),
        collectives_({program.mesh, hosting}, replicate),
        replicate_(replicate),
        on_device_(on_device) {}

  double sent(const std::vector<Instruction>& block) {
    double bytes = 0;
    for (const Instruction& instruction : block) {
      bytes += static_cast<double>(instruction.count()) * sent(instruction.body());
      if (instruction.is_collective()) bytes += static_cast<double>(sent_by(instruction));
    }
    return bytes;
  }

 private:
  /// Layers repeat the same collectives, so each distinct request is examined only once.
  int64_t sent_by(const Instruction& instruction) {
    const auto [known, is_new] = known_.try_emplace(request_of(program_, instruction, replicate_), 0);
    if (!is_new) return known->second;
    if (const auto planned = collectives_.of(program_, instruction)) {
      const auto& [parts, process, processes] = *planned;
      known->second = on_device_ ? plan_on_device(parts, process, processes).bytes_sent
                                 : sent_bytes(parts, process, processes);
    }
    return known->second;
  }

  const Program& program_;
  PlannedCollectives collectives_;
  const bool replicate_, on_device_;
  std::map<CollectiveRequest, int64_t> known_;
};

}  // namespace

double remote_traffic(const Program& program, Hosting hosting, bool replicate, bool on_device) {
  if (hosting.processes == 1) return 0;
  return TrafficCounter(program, hosting, replicate, on_device).sent(program.instructions);
}

}  // namespace mtf
