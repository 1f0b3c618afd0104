// What the processes of a run send each other when a program runs, known without running it.
//
//   remote_traffic(program, {4, 0})      // bytes that process 0 of 4 sends to the others in a run
#pragma once

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/program.h"

namespace mtf {

/// Payload bytes that one process sends to others in a run of `program`: the messages of the collectives as
/// they are prepared for a run, so Counters::bytes_to_processes counts the same. `replicate`:
/// run.check_replicas; `on_device`: from device to device. The processes must divide the positions of the
/// mesh.
double remote_traffic(const Program& program, Hosting hosting, bool replicate = false,
                      bool on_device = false);

}  // namespace mtf
