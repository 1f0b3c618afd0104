// Prints notes on the devices when a run begins: features that they lack, and the backend of collectives.
//
//   check_same_run(session, ...);
//   show_device_notes(session);
#pragma once

#include "trainer/report/progress.h"
#include "trainer/session/session.h"

namespace mtf {

/// Prints the notes to a log. It must be called after check_same_run().
void show_device_notes(const Session& session, Progress& progress);
/// Prints the notes to standard error in process 0, for runs without a log.
void show_device_notes(const Session& session);
/// Prints the notes that have come since then: kernels are prepared when they are first needed.
void show_later_notes(const Session& session, Progress& progress);
void show_later_notes(const Session& session);

}  // namespace mtf
