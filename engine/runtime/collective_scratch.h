// Computes the scratch memory that collectives between devices need besides the values, without running a
// program.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/program.h"

namespace mtf {

struct CollectiveScratchOptions {
  Hosting hosting;
  bool replicate = false;  ///< run.check_replicas
  bool overlap = true;     ///< ExecutorOptions::overlap
};

/// The scratch bytes that one collective of `program` needs in a process.
int64_t collective_scratch_bytes(const Program& program, const Instruction& instruction, Hosting hosting,
                                 bool replicate);

/// The scratch bytes that the device of one process needs to run the programs one after the other,
/// repeatedly. A collective holds its block from its start until it is awaited.
int64_t collective_scratch_bytes(std::span<const Program* const> programs,
                                 const CollectiveScratchOptions& options);

}  // namespace mtf
