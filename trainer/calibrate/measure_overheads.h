// Measures what operations and steps take besides their arithmetic and bytes.
#pragma once

#include "trainer/calibrate/measurement.h"
#include "trainer/config/hardware.h"

namespace mtf {

/// Sets the overheads of an operation and of a step, and for several cores what it takes them to compute together. The number of
/// cores is known.
void measure_overheads(const Measurement& measurement, DeviceOptions& device);

}  // namespace mtf
