// Detects that this process did not run for a while: it was stopped by a signal or a debugger, or its machine
// was suspended.
//
//   PauseDetector pauses;
//   pauses.last(std::chrono::minutes(1))    // 7.1 s: a pause of 7.1 s ended less than a minute ago
#pragma once

#include <chrono>
#include <mutex>

#include "engine/base/periodic_thread.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

class PauseDetector {
 public:
  PauseDetector();
  PauseDetector(const PauseDetector&) = delete;
  PauseDetector& operator=(const PauseDetector&) = delete;

  /// Returns the length of the last pause of half a second or more; 0 if none ended within `past`.
  Milliseconds last(Milliseconds past);

 private:
  using Clock = std::chrono::steady_clock;

  void look();

  std::mutex mutex_;
  Clock::time_point looked_ = Clock::now();
  Clock::time_point went_on_;
  Clock::duration pause_{0};
  PeriodicThread thread_;
};

}  // namespace mtf
