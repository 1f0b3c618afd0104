// run.mode=calibrate: measures this machine with the kernels and collectives of mtf-train, in about half a minute, and
// writes its profile as a file for key `hardware`.
//
//   mtf-train run.mode=calibrate calibrate.output=here.yaml
//   mtf-launch -n 2 -- mtf-train run.mode=calibrate         # with the link between the processes
//
// Kernels are timed in the processor time of one thread, so that other programs on the machine hardly matter. Times in
// which threads or processes meet are times of day: they need a machine that has nothing else to do.
#pragma once

#include "engine/comm/process/process_group.h"
#include "trainer/config/config.h"

namespace mtf {

void calibrate(const Config& config, ProcessGroup& processes);

}  // namespace mtf
