// Measures convolutions on a processor, with the gradients of their filters and inputs.
#pragma once

#include "trainer/calibrate/measurement.h"
#include "trainer/config/hardware.h"

namespace mtf {

/// `peak`: FLOPs in a second; `bandwidth`: bytes in a second of the memory.
ConvolutionRates measure_convolutions(const Measurement& measurement, double peak, double bandwidth);

}  // namespace mtf
