// Measures what memory gives to operations that are not products.
#pragma once

#include "trainer/calibrate/measurement.h"
#include "trainer/config/hardware.h"

namespace mtf {

/// Sets the rates of these operations, the bandwidths of cache and memory, and on a GPU that of the link to its machine.
/// The device's name, cores and size of cache are known.
void measure_memory(const Measurement& measurement, DeviceOptions& device);

}  // namespace mtf
