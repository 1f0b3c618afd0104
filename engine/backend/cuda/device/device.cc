#include "engine/backend/cuda/device/device.h"

#include <utility>

namespace mtf::cuda {

void Device::note(BackendNote note) {
  const std::lock_guard lock(notes_mutex_);
  if (noted_.insert(note.text).second) notes_.push_back(std::move(note));
}

std::vector<BackendNote> Device::take_notes() {
  const std::lock_guard lock(notes_mutex_);
  return std::exchange(notes_, {});
}

}  // namespace mtf::cuda
