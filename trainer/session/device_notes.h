// What the devices of a run have to say when it begins: what they lack, and what carries its collectives.
//
//   check_same_run(session, ...);
//   show_device_notes(session);
#pragma once

#include "trainer/report/progress.h"
#include "trainer/session/session.h"

namespace mtf {

/// Once the processes have been compared, and the devices may be connected.
void show_device_notes(const Session& session, Progress& progress);
/// On standard error, by process 0: of runs that have no log.
void show_device_notes(const Session& session);

}  // namespace mtf
