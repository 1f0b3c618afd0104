#include "engine/comm/process/pause_detector.h"

namespace mtf {

namespace {

/// The thread looks at the clock so often; a time between two looks that is as long as the second is a pause.
constexpr Milliseconds kLookPause(100), kShortestStall(500);

}  // namespace

PauseDetector::PauseDetector()
    : thread_(kLookPause, [this] {
        const std::lock_guard lock(mutex_);
        look();
        return true;
      }) {}

Milliseconds PauseDetector::last(Milliseconds past) {
  const std::lock_guard lock(mutex_);
  look();  // the thread has perhaps not run since
  const bool is_recent = pause_ > Clock::duration(0) && looked_ - went_on_ <= past;
  return is_recent ? std::chrono::duration_cast<Milliseconds>(pause_) : Milliseconds(0);
}

void PauseDetector::look() {
  const Clock::time_point now = Clock::now();
  if (now - looked_ >= kShortestStall) {
    pause_ = now - looked_;
    went_on_ = now;
  }
  looked_ = now;
}

}  // namespace mtf
