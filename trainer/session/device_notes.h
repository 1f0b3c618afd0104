// Prints notes on the devices: features that they lack, the backend of collectives, and what could not be done while
// a run computed.
//
//   check_same_run(session, ...);
//   const DeviceNotes notes(session);
#pragma once

#include "trainer/report/progress.h"
#include "trainer/session/session.h"

namespace mtf {

/// Prints the notes of the beginning to a log. It must be called after check_same_run().
void show_device_notes(const Session& session, Progress& progress);
/// Prints the notes since the last call to a log.
void show_new_device_notes(const Session& session, Progress& progress);

/// Prints the notes to standard error in process 0, for runs without a log: those of the beginning when it is
/// constructed, later ones when it is destroyed.
class DeviceNotes {
 public:
  /// The session must outlive this object.
  explicit DeviceNotes(const Session& session);
  ~DeviceNotes();
  DeviceNotes(const DeviceNotes&) = delete;
  DeviceNotes& operator=(const DeviceNotes&) = delete;

 private:
  const Session& session_;
};

}  // namespace mtf
