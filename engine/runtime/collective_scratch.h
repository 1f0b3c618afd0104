// Memory that collectives from device to device take beside the values, known without running a program.
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

/// Bytes that one collective of `program` has in a process.
int64_t collective_scratch_bytes(const Program& program, const Instruction& instruction, Hosting hosting,
                                 bool replicate);

/// Bytes on the device of one process, for programs that run one after the other and again. A collective has
/// its block from its start until it is awaited.
int64_t collective_scratch_bytes(std::span<const Program* const> programs,
                                 const CollectiveScratchOptions& options);

}  // namespace mtf
