// When something is due that the configuration wants every so many steps, seconds or epochs.
#pragma once

#include <cmath>

#include "engine/config/types.h"

namespace mtf {

/// How far a run has come, in each unit of an interval.
struct RunPosition {
  int64_t steps = 0;
  double epochs = 0;
  double seconds = 0;
};

class IntervalClock {
 public:
  /// `start`: where the run begins or goes on; what was due until there is no longer due.
  explicit IntervalClock(const config::Interval& interval, const RunPosition& start = {})
      : interval_(interval), passed_(passed(start)) {}

  /// True when a whole interval has passed since the last time that this was true. Intervals do not drift:
  /// the next one begins where this one was due.
  bool due(const RunPosition& at) {
    const double now = passed(at);
    if (now <= passed_) return false;
    passed_ = now;
    return true;
  }

 private:
  /// Whole intervals from the start of the run to `at`.
  double passed(const RunPosition& at) const {
    if (interval_.value <= 0) return 0;
    const double value = interval_.unit == config::Interval::Unit::kSteps    ? static_cast<double>(at.steps)
                         : interval_.unit == config::Interval::Unit::kEpochs ? at.epochs
                                                                             : at.seconds;
    return std::floor(value / interval_.value + 1e-9);
  }

  config::Interval interval_;
  double passed_;
};

}  // namespace mtf
