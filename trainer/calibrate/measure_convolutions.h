// Measures convolutions on a processor, with the gradients of their filters and inputs.
#pragma once

#include "engine/backend/backend.h"
#include "trainer/config/hardware.h"

namespace mtf {

struct ConvolutionMeasurement {
  int rounds = 5;
  double peak = 0;       ///< FLOPs in a second
  double bandwidth = 0;  ///< bytes in a second of the memory
  /// Bytes between two uses of an operand that has left the nearest caches, or all.
  double bytes_between = 0, bytes_until_cold = 0;
};

ConvolutionRates measure_convolutions(Backend& backend, const ConvolutionMeasurement& options);

}  // namespace mtf
