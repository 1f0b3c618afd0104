#include "trainer/session/device_notes.h"

namespace mtf {

void show_new_device_notes(const Session& session, Progress& progress) {
  for (const BackendNote& note : session.backend->take_notes())
    note.is_warning ? progress.warning(note.text) : progress.record(note.text);
}

void show_device_notes(const Session& session, Progress& progress) {
  show_new_device_notes(session, progress);
  if (!session.collective_backend.description.empty()) progress.info(session.collective_backend.description);
}

DeviceNotes::DeviceNotes(const Session& session) : session_(session) {
  if (!session.processes->is_first()) return;
  Progress progress(ProgressOptions{});
  show_device_notes(session, progress);
}

DeviceNotes::~DeviceNotes() {
  if (!session_.processes->is_first()) return;
  Progress progress(ProgressOptions{});
  show_new_device_notes(session_, progress);
}

}  // namespace mtf
