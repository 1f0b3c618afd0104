#include "engine/runtime/remote_traffic.h"

#include <map>

#include "engine/comm/device/device_plan.h"
#include "engine/comm/process/sent_bytes.h"
#include "engine/runtime/collective_of.h"

namespace mtf {
namespace {

class TrafficCounter {
 public:
  TrafficCounter(const Program& program, Hosting hosting, bool replicate, bool on_device)
      : program_(program), groups_({program.mesh, hosting}), replicate_(replicate), on_device_(on_device) {}

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
    const HostedMesh& mesh = groups_.hosted();
    if (is_new && crosses_processes(program_, instruction, mesh, replicate_)) {
      const std::vector<RemotePart> parts = planned_parts(program_, instruction, groups_, replicate_);
      known->second = on_device_ ? plan_on_device(parts, mesh.process(), mesh.processes()).bytes_sent
                                 : sent_bytes(parts, mesh.process(), mesh.processes());
    }
    return known->second;
  }

  const Program& program_;
  RemoteGroupPlans groups_;
  const bool replicate_, on_device_;
  std::map<CollectiveRequest, int64_t> known_;
};

}  // namespace

double remote_traffic(const Program& program, Hosting hosting, bool replicate, bool on_device) {
  if (hosting.processes == 1) return 0;
  return TrafficCounter(program, hosting, replicate, on_device).sent(program.instructions);
}

}  // namespace mtf
