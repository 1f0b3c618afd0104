// Notices that this process did not run for a while: stopped by a signal or a debugger, or with its machine.
//
//   PauseDetector pauses;
//   pauses.last(std::chrono::minutes(1))    // 7.1 s: it went on less than a minute ago, after 7.1 s
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

  /// How long the process did not run, the last time that this took half a second or more; 0: not within
  /// `past`.
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
