#include "engine/comm/process/pause_detector.h"

namespace mtf {

namespace {

/// The interval between the thread's looks at the clock, and the shortest time between two looks that counts
/// as a pause.
constexpr Milliseconds kLookPause(100), kShortestPause(500);

}  // namespace

PauseDetector::PauseDetector()
    : thread_(kLookPause, [this] {
        const std::lock_guard lock(mutex_);
        look();
        return true;
      }) {}

Milliseconds PauseDetector::last(Milliseconds past) {
  const std::lock_guard lock(mutex_);
  look();  // the thread may not have run since the pause
  const bool is_recent = pause_ > Clock::duration(0) && looked_ - went_on_ <= past;
  return is_recent ? std::chrono::duration_cast<Milliseconds>(pause_) : Milliseconds(0);
}

void PauseDetector::look() {
  const Clock::time_point now = Clock::now();
  if (now - looked_ >= kShortestPause) {
    pause_ = now - looked_;
    went_on_ = now;
  }
  looked_ = now;
}

}  // namespace mtf
