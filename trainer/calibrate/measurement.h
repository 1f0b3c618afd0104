// What the parts of run.mode=calibrate measure, and how.
#pragma once

#include <algorithm>

#include "engine/backend/backend.h"
#include "trainer/calibrate/calibration_sizes.h"
#include "trainer/calibrate/measured_kernel.h"

namespace mtf {

struct Measurement {
  Backend& backend;
  int rounds = 5;
  CalibrationSizes sizes;
  /// Bytes between two uses of an operand that has left the caches of a core and fills its share of the one that cores
  /// share, and of one that has left all caches.
  double bytes_between = 0, bytes_until_cold = 0;
  double overhead = 0;  ///< seconds that each operation of a GPU's recorded step takes besides

  double without_overhead(double seconds) const {
    return backend.is_host() ? seconds : std::max(seconds - overhead, seconds / 8);
  }
  /// Returns the seconds of an execution.
  double seconds(MeasuredKernel& kernel) const { return without_overhead(kernel.seconds(rounds)); }
};

}  // namespace mtf
