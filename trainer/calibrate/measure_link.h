// Measures the link between the processes of a run, by sums of different sizes over all of them.
#pragma once

#include "engine/backend/backend.h"
#include "engine/comm/process/process_group.h"
#include "trainer/config/hardware.h"

namespace mtf {

/// All processes of the group, of which there must be several, call it together.
LinkOptions measure_link(Backend& backend, ProcessGroup& processes);

}  // namespace mtf
