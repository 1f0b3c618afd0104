// Computes the scratch memory that collectives between devices need besides the values, without running a
// program.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "engine/core/hosted_mesh.h"
#include "engine/runtime/planned_collectives.h"
#include "engine/spmd/program.h"

namespace mtf {

struct CollectiveScratchOptions {
  Hosting hosting;
  bool replicate = false;  ///< run.check_replicas
  bool overlap = true;     ///< ExecutorOptions::overlap
};

/// Computes the scratch bytes that single collectives need in a process. Layers repeat the same collectives, so each
/// distinct request is planned only once.
class CollectiveScratch {
 public:
  CollectiveScratch(HostedMesh mesh, bool replicate)
      : collectives_(std::move(mesh), replicate), replicate_(replicate) {}

  /// `instruction` is a collective of `program`, which runs on this mesh.
  int64_t bytes(const Program& program, const Instruction& instruction);

 private:
  PlannedCollectives collectives_;
  const bool replicate_;
  std::map<CollectiveRequest, int64_t> known_;
};

/// The scratch bytes that the device of one process needs to run the programs one after the other,
/// repeatedly. A collective holds its block from its start until it is awaited.
int64_t collective_scratch_bytes(std::span<const Program* const> programs,
                                 const CollectiveScratchOptions& options);

}  // namespace mtf
