// Computes the bytes that the processes of a run send each other, without running the program.
//
//   remote_traffic(program, {4, 0})      // bytes that process 0 of 4 sends to the others in one run
#pragma once

#include "engine/core/hosted_mesh.h"
#include "engine/spmd/program.h"

namespace mtf {

/// The payload bytes that one process sends to others in a run of `program`. It counts the messages of the
/// collectives as they are prepared for a run, so it equals the increase of Counters::bytes_to_processes.
/// `replicate` is run.check_replicas. `on_device`: collectives go from device to device. The number of
/// processes must divide the number of positions.
double remote_traffic(const Program& program, Hosting hosting, bool replicate = false,
                      bool on_device = false);

}  // namespace mtf
