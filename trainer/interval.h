// When something is due that the configuration wants every so many steps, seconds or epochs.
#pragma once

#include <cmath>

#include "engine/config/types.h"

namespace mtf {

class IntervalClock {
 public:
  explicit IntervalClock(const config::Interval& interval) : interval_(interval) {}

  /// True when a whole interval has passed since the last time that this was true (at first since the start).
  /// `steps`, `epochs`, `seconds` since the start. Intervals do not drift: the next one begins where this one
  /// was due.
  bool due(int64_t steps, double epochs, double seconds) {
    if (interval_.value <= 0) return false;
    const double at = interval_.unit == config::Interval::Unit::kSteps    ? static_cast<double>(steps)
                      : interval_.unit == config::Interval::Unit::kEpochs ? epochs
                                                                          : seconds;
    const double passed = std::floor(at / interval_.value + 1e-9);
    if (passed <= passed_) return false;
    passed_ = passed;
    return true;
  }

 private:
  config::Interval interval_;
  double passed_ = 0;  ///< whole intervals so far
};

}  // namespace mtf
