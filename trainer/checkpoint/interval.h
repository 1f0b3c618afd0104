// Decides when an action is due that the configuration requests every N steps, seconds or epochs.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/config/types.h"

namespace mtf {

/// The progress of a run, in each unit of an interval.
struct RunPosition {
  int64_t steps = 0;
  double epochs = 0;
  double seconds = 0;
};

class IntervalClock {
 public:
  /// `start` is the position at which the run begins or resumes; intervals that ended before it are not due.
  explicit IntervalClock(const config::Interval& interval, const RunPosition& start = {})
      : interval_(interval), passed_(passed(start)) {}

  /// True if at least one interval has ended since the last call that returned true. Intervals do not drift:
  /// they are counted from the start of the run.
  bool due(const RunPosition& at) {
    if (!will_be_due(at)) return false;
    passed_ = passed(at);
    return true;
  }
  /// What due() would return.
  bool will_be_due(const RunPosition& at) const { return passed(at) > passed_; }

 private:
  /// The number of whole intervals from the start of the run to `at`.
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
