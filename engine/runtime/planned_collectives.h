// Plans the collectives of a process before values have memory, each distinct one once.
//
//   PlannedCollectives collectives(hosted, replicate);
//   if (const auto planned = collectives.of(program, instruction))   // nothing: no process needs another one
//     bytes = plan_on_device(planned->parts, planned->process, planned->processes).scratch_bytes;
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/runtime/collective_of.h"

namespace mtf {

/// The collectives of the process whose part of the mesh is given.
class PlannedCollectives {
 public:
  /// `replicate` is run.check_replicas.
  PlannedCollectives(HostedMesh mesh, bool replicate) : mesh_(std::move(mesh)), replicate_(replicate) {}

  /// A collective as a process of the given number among so many takes part in it. Where each process has one position,
  /// only those processes count that the collective joins, or those of all stages if one stage of a pipeline has it: the
  /// others do the same among themselves.
  struct Planned {
    std::vector<RemotePart> parts;
    int process = 0, processes = 1;
  };
  std::optional<Planned> of(const Program& program, const Instruction& instruction);

 private:
  RemoteGroupPlans& plans_along(AxisMask axes);

  HostedMesh mesh_;
  bool replicate_;
  std::map<AxisMask, RemoteGroupPlans> plans_;  ///< by the mesh dimensions that count
};

}  // namespace mtf
