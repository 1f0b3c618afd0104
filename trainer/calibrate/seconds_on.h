#pragma once

#include <ctime>

namespace mtf {

/// Returns the time in seconds of a clock of the system, such as CLOCK_THREAD_CPUTIME_ID.
inline double seconds_on(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace mtf
